"""One trace of mixed pods and gangs on simulated nodes, placed by different deciders side by side.

    trace ──> timeline ──> Alone: the ledger's core, nothing else
      (seed)  (virtual     Gated: a real API server and kube-scheduler, pods released and pinned as the core decides
               time)       Plain: the same without a ledger, every pod at once ──> figures ──> fragmentation.json, plot

Time is virtual: the next event comes when nothing moves any longer, so results do not depend on how fast a machine is. Nodes
are objects without a kubelet. A bound pod runs, and when its workload has run for its time, its pods are deleted. The study
uses the ledger's code for the decisions, but not to count the results.
"""
