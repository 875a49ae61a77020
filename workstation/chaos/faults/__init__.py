"""The faults of the experiments, by name: each is injected, proven by something else than the call that made it, and lifted.

scene     what a fault may use, and the shape of every fault
killed    pods of the platform, deleted
webhooks  webhooks of the target that refuse or delay its writes
floods    objects and watches without end
pending   pods that never fit
store     a store that is full
hogs      pods that take CPU, memory or processes without end
"""
