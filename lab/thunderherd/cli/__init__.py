"""The commands. Options in, one line on a mistake.

```
run.py       run, watch                             a study
compare.py   compare                                servers, without a study
gate.py      gate                                   did a server get slower?
search.py    crossover, knee                        studies that write studies
servers.py   conform, grade                         the cases of a workload, and the points of a submission
engine.py    serve, load, count, merge, judge       the engine's own commands, and what they wrote into files
results.py   table, claims, summary, report, plot   a run's results
sessions.py  baseline, capsule, replay, diff, export  several sessions, and runs for somebody else
explain.py   explain                                why the results of a run are as they are
list.py      list                                   what there is
machine.py   doctor, limits                         what this machine can do
```

The commands are registered by `main`. Options of several commands are in `options`.
"""
