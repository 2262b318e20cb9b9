"""The commands. Options in, one line on a mistake.

```
run.py       run, watch                             a study
compare.py   compare                                servers, without a study
search.py    crossover, knee                        studies that write studies
conform.py   conform                                a server against the cases of its workload
grade.py     grade                                  the points of a submission
engine.py    serve, load, count                     the engine's own commands; `labs` has their --lab
loads.py     merge, judge                           results of loads in files
results.py   table, claims, summary, report, plot   a run's results
explain.py   explain                                why the results of a run are as they are
list.py      list                                   what there is
machine.py   doctor, limits                         what this machine can do
```

The commands are registered by `main`. Options of several commands are in `options`.
"""
