"""What tests of several folders share. Code for only one folder is in that folder, and its fixtures are in its conftest.

    you test                                        use                                         it costs
    ------------------------------------------------------------------------------------------------------------------
    a translation, a pure decision                  translationsamples, tenantsamples, slurmsamples   nothing
    an informer or a client with a bad server       hostileserver, countedserver                milliseconds
    two API servers of your session                 the fixtures host_client, plane_client      one pair a process
    one for a file that changes what others need    the fixture file_server                     two seconds a file
    one for a few files that may see each other     quiet_, guarded_, translated_, lone_server  two seconds in all
    one that you may kill, freeze, restart          servers.running (fixture own_server)        two seconds, 400 MiB
    root, programs, namespaces, an address          machine                                     nothing, or a skip with a reason
    a server that has our definitions when it starts  servers.ServerOptions(defined=True)       less than crds.install
    the syncer of one tenant                        syncerbed.SyncerBed                         half a second
    streams to a kubelet that a test plays          playedkubelet.with_kubelet                  half a second
    the ledger, with a scheduler and kwok           ledgerhost.LedgerHost                       half a second
    the controller without its queue                controllerhost.ControllerHost               half a second
    the command line as a process                   commandline.start, .finish (forker)         50 ms a command
    how it starts, signals and terminals            commandline.start_anew                      a second a command
    a plane and a host next to many tests           beside                                      one pair a file
    objects that many tests apply to one server     applying, crds                              the changed objects
    the chart                                       helmchart.rendered, known.all_known         half a second
    an identity provider, and a person who uses it  dex, people, believing                      seconds
    a real HAProxy                                  proxying                                    milliseconds
    a server of another project, until it answers   started                                     what that server costs
    a task next to the test, a leader               background, leading                         nothing
    whether an object is on a server                presence                                    one request
    that a copy has seen what was written           lag                                         one list, if anything was
    what a queue holds for later                    hastening                                   nothing
    a clock                                         fakeclock                                   nothing
    a run on a bad machine (LAG=1)                  strain                                      minutes
    several processes of pytest                     workers, zygote, reports                    one import of all tests
    which file comes first, and together with which order (UNITS, LONGEST_FIRST)       nothing
    certificates, ports, kubeconfigs, files         pki, ports, kubeconfigs, goldens, yamlfiles nothing

`docs/contributing.md` says how a test stays independent of the timing of others.
"""
