"""Foundation of the actors, without any controller. Packages from the bottom up; imports point downwards only:

cel/                         expressions of rules, policies and match conditions
scheduling/ process/ x509/   clock, work queue, backoff, rate limits; child processes, signals, files, event loop;
                             certificate requests, and authorities that sign them
schema/                      types of the built-in API
signing/                     keys in files, and tokens signed with them
flags/ logs/ metrics/        declaration and parsing of flags; log lines; metrics
calls/ http/ tracing/        calls outside the actors, on threads or an event loop; HTTP; the export of traces
system/ tables/ cloud/       actors: names, incarnations, supervision, journal; objects of informers; clouds
client/                      the client of an API server: configuration, credentials, requests, watches
apiserver/ serving/ faults/  the embedded API server; health and metrics over HTTP; faults and when they occur
envtest/                     where the programs of envtest store objects
simulation/                  the world: actors without threads, by seed, on a virtual clock
"""
