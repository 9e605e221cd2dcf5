# SPDX-License-Identifier: Apache-2.0
"""The expression grammar of op_info against Python's own semantics, and what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ms_custom_ops.registry.expr import ExpressionError, parse_expr

NAMES = ("B", "N1", "S2", "flag")
_VALUES = st.one_of(st.integers(-40, 40), st.booleans(), st.floats(-4, 4, allow_nan=False))


def _combine(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.tuples(children, st.sampled_from(["+", "-", "*", "//", "%", "and", "or"]), children)
    compare = st.tuples(
        children, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), children, st.sampled_from(["<", "=="]), children
    )
    return st.one_of(
        binary.map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        compare.map(lambda t: f"({t[0]} {t[1]} {t[2]} {t[3]} {t[4]})"),
        st.tuples(st.sampled_from(["-", "+", "not "]), children).map(lambda t: f"({t[0]}{t[1]})"),
        st.tuples(st.sampled_from(["min", "max"]), children, children).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        st.tuples(children, st.sampled_from(["in", "not in"])).map(lambda t: f"({t[0]} {t[1]} (0, 3, 4))"),
    )


_LEAVES = st.one_of(st.sampled_from(NAMES), st.integers(0, 300).map(str), st.just("0.5"))
EXPRESSIONS = st.recursive(_LEAVES, _combine, max_leaves=12).filter(lambda text: len(text) <= 400)


@settings(max_examples=400, deadline=None)
@given(text=EXPRESSIONS, values=st.lists(_VALUES, min_size=len(NAMES), max_size=len(NAMES)))
def test_same_value_or_same_failure_as_python(text: str, values: list) -> None:
    env = dict(zip(NAMES, values, strict=False))
    expr = parse_expr(text)
    assert expr.names == {name for name in NAMES if name in compile(text, "", "eval").co_names}
    try:
        want = eval(text, {"__builtins__": {"min": min, "max": max}}, env)
    except ZeroDivisionError:
        with pytest.raises(ExpressionError, match="zero|modulo"):
            expr.evaluate(env)
        return
    got = expr.evaluate(env)
    assert type(got) is type(want) and got == want


REFUSED = {
    "power": ("N ** 2", "the operator Pow"),
    "true_division": ("N / 2", "the operator Div"),
    "shift": ("1 << 60", "the operator LShift"),
    "invert": ("~N", "the operator Invert"),
    "attribute": ("N.real", "Attribute"),
    "subscript": ("N[0]", "Subscript"),
    "lambda": ("lambda: 1", "Lambda"),
    "comprehension": ("[i for i in N]", "ListComp"),
    "call": ("open('x')", "a call of open with 1 argument"),
    "method_call": ("'a'.join('b')", "a call of a call of an attribute"),
    "dunder": ("__import__('os')", "a call of __import__"),
    "one_argument_min": ("min(N)", "a call of min with 1 argument"),
    "keyword": ("min(N, 2, key=3)", "a keyword"),
    "starred": ("max(*N, 2)", "a keyword or starred argument"),
    "identity": ("N is None", "the comparison Is"),
    "in_name": ("N in M", "'in' without a list of literals"),
    "none": ("None", "the constant None"),
    "bytes": ("b'x'", "the constant b'x'"),
    "ternary": ("1 if N else 2", "IfExp"),
    "walrus": ("(N := 3)", "NamedExpr"),
    "present_of_expression": ("present(N + 1)", "a call of present"),
    "f_string": ("f'{N}'", "JoinedStr"),
    "statement": ("N = 3", "not an expression"),
    "empty": ("", "not an expression"),
    "null_byte": ("N\0", "not an expression"),
    "deep": ("-" * 300 + "1", "nesting deeper than 60"),
    "many_parentheses": ("(" * 199 + "1" + ")" * 198, "not an expression"),
    "long": ("1 + " * 200 + "1", "an expression of 801 characters; accepted: at most 400"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    text, what = REFUSED[name]
    with pytest.raises(ExpressionError) as error:
        parse_expr(text)
    assert what in str(error.value) and "accepted" in str(error.value)


@pytest.mark.parametrize(
    "text, env, value",
    [
        ("present(mask)", {"present:mask": False}, False),
        ("dtype(q) != 'BF16'", {"dtype:q": "F16"}, True),
        ("mode in ('a', 'b')", {"mode": "b"}, True),
        ("mode == 'x' or present(m)", {"mode": "x"}, True),
    ],
)
def test_functions_and_strings(text: str, env: dict, value: object) -> None:
    assert parse_expr(text).evaluate(env) is value


@pytest.mark.parametrize(
    "text, env, what",
    [
        ("N + 1", {}, "N is not bound"),
        ("mode % 3", {"mode": "%d"}, "arithmetic needs numbers, got '%d'"),
        ("min(mode, 3)", {"mode": "a"}, "arithmetic needs numbers"),
        ("mode * 9", {"mode": "a"}, "arithmetic needs numbers"),
        ("-mode", {"mode": "a"}, "arithmetic needs numbers"),
        ("mode < 3", {"mode": "a"}, "not supported between"),
    ],
)
def test_evaluation_errors_quote_the_expression(text: str, env: dict, what: str) -> None:
    with pytest.raises(ExpressionError) as error:
        parse_expr(text).evaluate(env)
    assert str(error.value).startswith(f"'{text}': ") and what in str(error.value)
