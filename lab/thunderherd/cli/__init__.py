"""The commands. Options in, one line on a mistake.

```
run.py       run, watch                             a study
compare.py   compare                                servers, without a study
gate.py      gate                                   did a server get slower?
search.py    crossover, knee                        studies that write studies
servers.py   conform, grade                         the cases of a workload, and the points of a submission
engine.py    serve, load, count, merge, judge       the engine's own commands, and files with their results
results.py   table, claims, summary, report, plot   a run's results
sessions.py  baseline, capsule, replay, diff, export  several runs, and runs of other people
explain.py   explain                                why the results of a run are as they are
list.py      list                                   the entries of all kinds
machine.py   doctor, hosts, limits                         what this machine can do
```

`main` registers the commands. `options` has the options of several commands, `labs` --lab of serve and load.
"""
