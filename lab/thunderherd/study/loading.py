"""Load a study: TOML in, a frozen `Study` with all defaults out.

`load_study` reads a file, applies a size and the user's overrides, and checks everything against the engine's
catalogue and this machine. All mistakes of a file come in one UserError, each with file and line or override.
The steps are in `toml.file` (TOML with lines), `study.file` (tables, and contenders before defaults),
`study.overrides`, `study.checks`, `study.resolver` and `study.resolved` (the result).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from thunderherd.engine.catalogue import Catalogue
from thunderherd.errors import UserError
from thunderherd.study.defaults import read
from thunderherd.study.file.names import bundled_studies, find_study
from thunderherd.study.resolved import Comparison, Contender, Lab, LoadPlan, Look, Study, Sweep
from thunderherd.study.resolver import Resolver
from thunderherd.toml.file import Problems, TomlFile, unknown

__all__ = [
    "Comparison",
    "Contender",
    "Lab",
    "LoadPlan",
    "Look",
    "Study",
    "Sweep",
    "asked_for",
    "load_sizes",
    "load_study",
]


def asked_for(study: Study) -> str:
    """Return the argument of `thunderherd run` for a study: its name if bundled, else its path."""
    return study.name if bundled_studies().get(study.name) == study.path else str(study.path)


def load_study(
    study: str | TomlFile,
    size: str,
    overrides: Sequence[str],
    catalogue: Catalogue,
    typed_as: Mapping[str, str] = MappingProxyType({}),
) -> Study:
    """Read, check and resolve a study.

    Parameters
    ----------
    study
        The name of a bundled study, the path of a .toml file, or a file that has been read.
    size
        A size that the study declares; `study.file.names.DEFAULT_SIZE` is the default of users.
    overrides
        `key=value` texts, as given to --set; later ones take precedence.
    catalogue
        The engine's catalogue.
    typed_as
        For overrides that were not typed as `--set`: the words that the user typed, for error messages.

    Raises
    ------
    UserError
        A problem for each mistake. The other sizes of a user's study are checked too, except for what depends
        on this machine. The tests check all sizes of the bundled studies.
    """
    file = study if isinstance(study, TomlFile) else TomlFile(find_study(study))
    is_bundled = file.path in bundled_studies().values()
    problems = Problems(file)
    form, data, whole = read(file.data, catalogue, problems)
    if size not in form.sizes:
        problems.add(("sizes",), unknown("size", size, form.sizes))
        problems.raise_any()
    found = None
    for each in [size] if is_bundled else form.sizes:
        pass_ = Problems(file)
        pass_.settled |= problems.settled
        chosen = each == size
        given = overrides if chosen else ()
        resolver = Resolver(form, data, each, given, typed_as, catalogue, pass_, whole)
        resolved = resolver.study(on_this_machine=chosen)
        problems.absorb(pass_)
        found = resolved if chosen else found
    problems.raise_any()
    if found is None:
        raise UserError("the study cannot be resolved", code="study.unresolved", where=str(file.path))
    text = json.dumps(found.model_dump(mode="json", exclude={"digest"}), sort_keys=True)
    return found.model_copy(update={"digest": hashlib.sha256(text.encode()).hexdigest()})


def load_sizes(name_or_path: str, catalogue: Catalogue) -> dict[str, Study | list[str]]:
    """Return a study in each of its sizes as it would run on this machine, or the problems in lines."""
    file = TomlFile(find_study(name_or_path))
    problems = Problems(file)
    form, data, whole = read(file.data, catalogue, problems)
    found: dict[str, Study | list[str]] = {}
    for size in form.sizes:
        pass_ = Problems(file)
        pass_.settled |= problems.settled
        study = Resolver(form, data, size, (), {}, catalogue, pass_, whole).study(on_this_machine=True)
        pass_.absorb(problems)
        found[size] = study if study is not None and not len(pass_) else pass_.lines
    return found
