"""What actors stand on; nothing here knows a controller. From the bottom up, imports point downwards only:

cel/                         expressions of rules, policies and match conditions
scheduling/ process/ x509/   clock, work queue, backoff, rate limits; child processes, signals, files, event loop;
                             certificate requests, and authorities that sign them
signing/                     keys from files, and tokens that they sign
flags/ logs/ metrics/        how flags are declared and read, log lines written, figures counted
calls/                       what is done outside of the actors: threads, an event loop
system/ tables/ cloud/       actors: names, incarnations, supervision, journal; what informers see; clouds
client/                      HTTP to an API server: configuration, credentials, connections, watches
apiserver/ serving/ faults/  an API server of our own; health and metrics over HTTP; faults and when they strike
simulation/                  the world: actors without threads, by seed, on a virtual clock
"""
