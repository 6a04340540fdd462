"""Compares a compiled module with the .pyi beside it: same names, same parameters, docstrings where users look."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

# Members that Cython or Python adds to a class and that no stub repeats.
_ADDED = {
    "__reduce__",
    "__setstate__",
    "__reduce_cython__",
    "__setstate_cython__",
    "__doc__",
    "__new__",
    "__pyx_vtable__",
}
_ADDED |= {"__module__", "__dict__", "__weakref__", "__hash__", "__init__", "__static_attributes__", "__firstlineno__"}
# Comparison operators share one slot: one that is defined makes all six appear.
_RICH = {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}
# Slots that bring a twin which is not written in the source.
# What namedtuple() makes.
_ADDED |= {"__getnewargs__", "__match_args__", "__slots__"}
# What every object has.
_ADDED |= {"__repr__", "__str__"}
_ADDED |= {"__setitem__", "__delitem__", "__radd__", "__rsub__", "__rmul__", "__setattr__", "__delattr__"}

Parameters = list[tuple[str, str, bool]]  # name, kind, has a default


def visible_names(module: ModuleType) -> set[str]:
    """Functions and classes that the module itself defines; imported ones and private helpers are left out."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
        and (inspect.isclass(value) or callable(value))
    }


def differences(module: ModuleType, stub: str) -> Iterator[str]:
    """One line for each thing that a reader of the stub would be told wrongly, or not at all."""
    tree = ast.parse(stub)
    if not ast.get_docstring(tree):
        yield "the stub has no first page: a docstring that says what the module is for"
    declared = {_name(node): node for node in tree.body if _name(node)}
    for name in sorted(visible_names(module) - declared.keys()):
        yield f"{name}: not in the stub"
    for name, node in declared.items():
        if name.startswith("_"):
            continue
        if not hasattr(module, name):
            yield f"{name}: only in the stub"
        elif isinstance(node, ast.ClassDef):
            yield from _class_differences(getattr(module, name), node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _function_differences(name, getattr(module, name), node, drop_first=False)


def _class_differences(found: type, node: ast.ClassDef) -> Iterator[str]:
    members: dict[str, ast.stmt] = {_name(statement): statement for statement in node.body if _name(statement)}
    constructor = members.get("__init__")
    if not ast.get_docstring(node) and not (
        isinstance(constructor, ast.FunctionDef) and ast.get_docstring(constructor)
    ):
        yield f"{node.name}: no docstring"
    if isinstance(constructor, ast.FunctionDef) and (names := _embedded_names(found)) is not None:
        wanted = [name for name, _, _ in _stub_parameters(constructor, drop_first=True)]
        if names != wanted:
            yield f"{node.name}(): parameters are {names}, the stub says {wanted}"
    for name in sorted(vars(found).keys() - members.keys() - _ADDED - _RICH):
        if not name.startswith("_") or name.endswith("__"):
            yield f"{node.name}.{name}: not in the stub"
    for name, statement in members.items():
        if name == "__init__":
            continue
        if not hasattr(found, name):
            # An instance of a Python class has attributes of its own; a cdef class has only what it declares.
            if not (isinstance(statement, ast.AnnAssign) and _is_python_class(found)):
                yield f"{node.name}.{name}: only in the stub"
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_property(statement):
            yield from _function_differences(
                f"{node.name}.{name}", vars(found).get(name), statement, drop_first=not _is_static(statement)
            )


def _function_differences(
    name: str, found: Any, node: ast.FunctionDef | ast.AsyncFunctionDef, *, drop_first: bool
) -> Iterator[str]:
    plain = getattr(found, "__func__", found)  # below staticmethod and classmethod
    if not node.name.startswith("_") and not ast.get_docstring(node):
        yield f"{name}: no docstring"
    try:
        signature = inspect.signature(plain)
    except (TypeError, ValueError):
        return  # a slot such as __len__ has no signature of its own
    if node.name.startswith("__") and plain.__class__.__name__ == "wrapper_descriptor":
        return
    actual: Parameters = [
        (parameter.name, parameter.kind.name, parameter.default is not parameter.empty)
        for parameter in signature.parameters.values()
    ]
    if drop_first:
        actual = actual[1:]
    wanted = _stub_parameters(node, drop_first=drop_first)
    if actual != wanted:
        yield f"{name}: parameters are {_shown(actual)}, the stub says {_shown(wanted)}"


def _stub_parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, *, drop_first: bool) -> Parameters:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    first_default = len(positional) - len(arguments.defaults)
    found: Parameters = [
        (
            argument.arg,
            "POSITIONAL_ONLY" if position < len(arguments.posonlyargs) else "POSITIONAL_OR_KEYWORD",
            position >= first_default,
        )
        for position, argument in enumerate(positional)
    ]
    if drop_first:
        found = found[1:]
    if arguments.vararg:
        found.append((arguments.vararg.arg, "VAR_POSITIONAL", False))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append((argument.arg, "KEYWORD_ONLY", default is not None))
    if arguments.kwarg:
        found.append((arguments.kwarg.arg, "VAR_KEYWORD", False))
    return found


def _embedded_names(found: type) -> list[str] | None:
    """Parameter names of a cdef class's constructor, from the signature that Cython puts before its docstring."""
    first_line = (found.__doc__ or "").split("\n", 1)[0]
    match = re.fullmatch(rf"{found.__name__}\((.*)\)", first_line)
    if match is None:
        return None
    names = []
    for part in _split_at_commas(match.group(1)):
        word = re.match(r"[^=:]*?(\w+)\s*(?:[=:]|$)", part)
        if word and part.strip() not in ("*", "/", "self"):
            names.append(word.group(1))
    return names


def _split_at_commas(text: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _name(node: ast.stmt) -> str:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    return ""


def _is_python_class(found: type) -> bool:
    """True for a class whose instances have a dictionary."""
    return found.__dictoffset__ != 0


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        "property" in ast.unparse(decorator) or ".setter" in ast.unparse(decorator) for decorator in node.decorator_list
    )


def _is_static(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(decorator) == "staticmethod" for decorator in node.decorator_list)


def _shown(parameters: Parameters) -> str:
    marks = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
    shown = []
    for name, kind, has_default in parameters:
        if kind == "KEYWORD_ONLY" and not any(mark.startswith("*") for mark in shown):
            shown.append("*")
        shown.append(marks.get(kind, "") + name + ("=..." if has_default else ""))
    return f"({', '.join(shown)})"
