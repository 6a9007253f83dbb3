"""Values of expressions: operators, macros, extensions, and the libraries that Kubernetes adds."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.runtime.cel import types
from kcm.runtime.cel.errors import CompileError, CostExceededError, EvaluationError, ProgramError
from kcm.runtime.cel.language import base_environment, compiled_program
from kcm.runtime.cel.values import Duration, Optional, Timestamp, Uint

EXPECTED = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
WRITABLE = "can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
RANGES = "(must be list, map, or dynamic)"
DATA = {"spec": {"replicas": 3, "names": ["a", "b"], "labels": {"app": "web"}, "port": "http"}}


def evaluated(expression: str, **variables: Any) -> Any:
    names = {"self": DATA, **variables}
    environment = base_environment().extended(dict.fromkeys(names, types.DYN), {})
    return compiled_program(expression, environment)[0].evaluate(names)[0]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3 - 4 / 2 % 3", 5),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("1u + 2u", Uint(3)),
        ("0x10 == 16 && dyn(2u) == 2 && dyn(1.0) == 1", True),
        ("'a' + \"b\" + r'\\n' + '''c'''", "ab\\nc"),
        ("b'\\xff' == b'\\377'", True),
        ("'\\u00e9'.size()", 1),
        ("!true || (false ? 1 : 2) == 2", True),
        ("self.spec.missing == 1 || true", True),
        ("true || self.spec.missing == 1", True),
        ("self.spec.missing == 1 && false", False),
        ("has(self.spec.replicas) && !has(self.spec.other)", True),
        ("self.spec.names.all(n, n.size() == 1)", True),
        ("self.spec.names.exists(n, n == 'b')", True),
        ("[1, 2, 2].exists_one(n, n == 2)", False),
        ("self.spec.names.map(n, n + '!')", ["a!", "b!"]),
        ("[1, 2, 3].filter(n, n > 1).map(n, n > 2, n * 10)", [30]),
        ("self.spec.labels.all(k, k.startsWith('a'))", True),
        ("[5, 6].all(i, v, v == i + 5)", True),
        ("{'a': 1}.transformMap(k, v, v + 1)", {"a": 2}),
        ("['x', 'y'].transformList(i, v, string(i) + v)", ["0x", "1y"]),
        ("['x'].transformMapEntry(i, v, {v: i})", {"x": 0}),
        ("{'a': 1, 'b': 2}.existsOne(k, v, v > 1)", True),
        ("'a' in {'a': 1} && 2 in [1, 2]", True),
        ("{true: 'yes'}[true]", "yes"),
        ("self.?spec.?other.orValue(7)", 7),
        ("self.spec.?replicas.hasValue() && self.spec[?'replicas'].value() == 3", True),
        ("self.?spec.optMap(s, s.replicas + 1).value()", 4),
        ("optional.none().or(optional.of(1)).value()", 1),
        ("[?self.?other, self.spec.replicas]", [3]),
        ("{?'a': self.?other, 'b': self.spec.replicas}", {"b": 3}),
        ("type(1) == int && type('') == string && type([]) == list && type(null) == null_type", True),
        ("string(1e6) + ' ' + string(1.5) + ' ' + string(-0.00001)", "1e+06 1.5 -1e-05"),
        ("int('42') + int(3.9) + int(timestamp('1970-01-01T00:01:00Z'))", 105),
        ("double('1.5') + 1.0", 2.5),
        ("duration('1h30m')", Duration(5400 * 10**9)),
        ("string(duration('1h30m0.5s'))", "5400.5s"),
        ("timestamp('2020-01-01T00:00:00Z') - timestamp('2019-12-31T23:00:00Z') == duration('1h')", True),
        ("timestamp('2020-02-29T12:00:00+02:00').getHours()", 10),
        ("timestamp('2020-02-29T12:00:00Z').getDate('+14:00')", 1),
        ("timestamp('2020-02-29T12:00:00Z').getHours('+25:00')", 13),
        ("timestamp('2020-02-29T5:00:00Z').getHours('5:3')", 10),
        ("timestamp('9999-12-31T23:59:59Z').getFullYear('+01:00')", 10000),
        ("timestamp('0001-01-01T00:00:00Z').getFullYear('-01:00')", 0),
        ("optional.of(1).or(optional.none()).value() + dyn(1).orValue(2)", 2),
        ("[dyn(1), dyn(2.5)].max()", 2.5),
        ("timestamp(0)", Timestamp(0)),
        ("'hello'.matches('^h.*o$') && matches('x', '[[:alpha:]]')", True),
        ("'abc'.charAt(1) + 'abc'.substring(1) + 'abcabc'.replace('b', 'x', 1)", "bbcaxcabc"),
        ("'a,b,c'.split(',', 2)", ["a", "b,c"]),
        ("'abcabc'.lastIndexOf('b') + 'abcabc'.indexOf('b', 2)", 8),
        ("[' x '.trim(), 'aé'.upperAscii()].join('-')", "x-Aé"),
        ("'%s|%d|%.2f|%x|%b'.format([dyn('s'), dyn(3), dyn(1.5), dyn(255), dyn(true)])", "s|3|1.50|ff|1"),
        ("'%s has %d'.format(['a', 3])", "a has 3"),
        ("has(self.spec.replicas.none) || has(self.spec.labels.none)", False),
        ("self.?spec.replicas.none", Optional(False)),
        ("self.spec.?replicas.?none.hasValue()", False),
        ("(true ? self : {}).spec.replicas", 3),
        ("{'a': 1, 'a': 2}", {"a": 2}),
        ("[,] == [] && {,} == {}", True),
        ("dyn(9223372036854775807) == dyn(9223372036854775807.0)", True),
        ("dyn([1]) in {'a': 1}", False),
        ("'%f %.1f %e'.format([1234.5, -1e6, 1.5e-7])", "1,234.500000 -1,000,000.0 1.500000×10⁻⁰⁷"),
        ("'%s'.format([{'a': [1.5, 2.0]}])", '{"a":[1.500000, 2.000000]}'),
        ("[3, 1, 2].sort() == [1, 2, 3] && [1, 2].isSorted() && [1, 2].sum() == 3", True),
        ("[[1], [2, 3]].flatten().reverse().distinct().slice(0, 2)", [3, 2]),
        ("['bb', 'a'].sortBy(s, s.size())", ["a", "bb"]),
        ("lists.range(3).max() + [4, 5].min() + [7, 8, 7].lastIndexOf(7)", 8),
        ("sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])", True),
        ("'abc 123 def 456'.findAll('[0-9]+') + ['x'.find('y')]", ["123", "456", ""]),
        ("url('https://user@example.com:8443/a%20b?q=1&q=2').getHostname()", "example.com"),
        ("url('https://example.com:8443/p?q=1').getQuery()['q'] == ['1'] && isURL('/path') && !isURL('a b')", True),
        ("url('https://[::1]:80/').getHost() + url('https://[::1]:80/').getPort()", "[::1]:8080"),
        ("ip('10.0.0.1').family() == 4 && ip('::1').isLoopback() && !isIP('10.0.0') && !isIP('::ffff:1.2.3.4')", True),
        ("ip.isCanonical('2001:db8::1') && !ip.isCanonical('2001:DB8::1')", True),
        ("cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && string(cidr('10.1.0.0/16').ip()) == '10.1.0.0'", True),
        ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))", True),
        ("quantity('1.5Gi').isGreaterThan(quantity('1G')) && quantity('2k').add(1).asInteger() == 2001", True),
        ("quantity('50k') == quantity('50000') && !quantity('0.5').isInteger() && !isQuantity('1x')", True),
        ("sign(quantity('-1')) + quantity('1').compareTo(quantity('2'))", -2),
        ("semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && semver('v1.2', true).minor() == 2", True),
        ("['1.5Gi', '1000m', '1.0', '1k', '0.5k'].map(q, quantity(q).isInteger())", [False, False, False, True, True]),
        ("'hello'.indexOf('l', 9) + 'hello'.lastIndexOf('l', 9)", -2),
        ("'hello hello'.findAll('h*')", ["h", "", "", "", "", "h", "", "", "", ""]),
        ("['mailto:a@b', 'http:', '*', 'http://h#%zz', '1a:b'].map(u, isURL(u))", [True, True, True, False, False]),
        ("url('http://h/?a=1;b&c=2').getQuery()", {"c": ["2"]}),
        ("optional.ofNonZeroValue(timestamp('0001-01-01T00:00:00Z')).hasValue()", False),
        (
            "format.labelValue().validate(lists.range(64).map(i, 'a').join('')).value()",
            ["must be no more than 63 bytes"],
        ),
        ("isSemver('1.0.0') && !isSemver('v1.0') && semver('1.0.0+a') == semver('1.0.0+b')", True),
        ("format.dns1123Label().validate('UP').hasValue() && format.uuid().validate('x').value().size() == 1", True),
        ("format.named('date').value().validate('2020-02-30').value()", ["invalid date"]),
        ("format.named('nope').hasValue()", False),
    ],
)  # fmt: skip
def test_expression_has_expected_value(expression: str, value: Any) -> None:
    result = evaluated(expression)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + 1", "integer overflow"),
        ("-9223372036854775808 / -1", "integer overflow"),
        ("1u - 2u", "unsigned integer overflow"),
        ("-9223372036854775808 % -1", "integer overflow"),
        ("duration('9223372036s') + duration('9223372036s')", "integer overflow"),
        ("duration(self.spec.replicas)", "type conversion error from 'int' to 'google.protobuf.Duration'"),
        ("timestamp('2020-02-29T12:00:00Z').getHours('../etc')", "time: invalid location name"),
        ("semver('99999999999999999999.1.1')", 'strconv.ParseUint: parsing "99999999999999999999": value out of range'),
        ("[dyn(1), dyn('a')].sum()", "no such overload"),
        ("[dyn(1), dyn(null)].isSorted()", "no such overload"),
        ("[dyn(1), dyn('a')].sort()", "list elements must have the same type"),
        ("self.spec.labels + 1", "no such overload: _+_"),
        ("self.spec.replicas.size()", "no such overload: size"),
        ("self.spec.replicas.trim()", "no such overload: trim(int)"),
        ("double('NaN') < 1.0", "NaN values cannot be ordered"),
        ("self.nope", "no such key: nope"),
        ("self.spec.replicas.none", "no such key: none"),
        ("self.spec.names.none", "unsupported index type 'string' in list"),
        ("self.spec.names[0.5]", "unsupported index value 0.5 in list"),
        ("self.spec.port.all(p, true)", "got 'types.String', expected iterable type"),
        ("self.spec.port.all(i, p, true)", "unsupported comprehension range type: types.String"),
        ("[1].transformMapEntry(i, v, self.spec.port)", "no such overload: cel.@mapInsert(map, string)"),
        ("self.spec.labels['nope']", "no such key: nope"),
        ("self.spec.names[5]", "index out of bounds: 5"),
        ("self.spec.port + 1", "no such overload"),
        ("self.spec.replicas.startsWith('3')", "no such overload"),
        ("int(self.spec.port)", "type conversion error from 'string' to 'int'"),
        ("optional.none().value()", "optional.none() dereference"),
        ("[].max()", "max called on empty list"),
        ("{'a': 1}.map(k, {'x': k})[0].y", "no such key: y"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("'abc'.charAt(9)", "index out of range: 9"),
        ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
        ("'a'.find(self.spec.port + '(')", "Illegal regex: error parsing regexp: missing closing ): `http(`"),
        ("quantity('x').sub(1)", "quantities must match the regular expression"),
        ("semver('v1.2.3').major()", 'Invalid character(s) found in major number "v1"'),
        ("semver('1.2.3-').major()", "Prerelease is empty"),
        ("semver('1.2.3-rc_1').major()", 'Invalid character(s) found in prerelease "rc_1"'),
        ("quantity('1kk').isInteger()", "unable to parse quantity's suffix"),
        ("quantity('1.5Gi').asInteger()", "cannot convert value to integer"),
        ("[null].unwrapOpt()", "no such overload: unwrapOpt(list)"),
        ("[null].sort()", "list elements must be comparable"),
        ("semver('1.2').major()", "No Major.Minor.Patch elements found"),
        ("ip('x').family()", 'IP Address "x" parse error during conversion from string'),
        ("url('x').getHost()", "URL parse error during conversion from string"),
    ],
)
def test_failed_evaluation_has_expected_text(expression: str, text: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluated(expression)
    assert str(failed.value).startswith(text)


@pytest.mark.parametrize(
    ("expression", "issue"),
    [
        ("", f"1:0: Syntax error: mismatched input '<EOF>' expecting {EXPECTED}"),
        ("self.a +", f"1:9: Syntax error: mismatched input '<EOF>' expecting {EXPECTED}"),
        ("(1", "1:3: Syntax error: missing ')' at '<EOF>'"),
        ("self[0", "1:7: Syntax error: missing ']' at '<EOF>'"),
        ("[1", "1:3: Syntax error: mismatched input '<EOF>' expecting {']', ','}"),
        ("[1 2]", "1:4: Syntax error: extraneous input '2' expecting {']', ','}"),
        ("{1 2}", "1:4: Syntax error: missing ':' at '2'"),
        ("size('a' 'b')", "1:10: Syntax error: extraneous input ''b'' expecting ')'"),
        ("+1", f"1:1: Syntax error: extraneous input '+' expecting {EXPECTED}"),
        ("self.", "1:6: Syntax error: no viable alternative at input '.'"),
        ("self.in", "1:6: Syntax error: no viable alternative at input '.in'"),
        ("self.true", "1:6: Syntax error: mismatched input 'true' expecting IDENTIFIER"),
        ("!-self", "1:3: Syntax error: no viable alternative at input '-self'"),
        ("- !self", "1:3: Syntax error: no viable alternative at input '- !'"),
        ("!-null", "1:3: Syntax error: mismatched input 'null' expecting IDENTIFIER"),
        ("!-", "1:3: Syntax error: no viable alternative at input '-'"),
        ("!-1", "1:1: found no matching overload for '!_' applied to '(int)'"),
        ("self = 1", "1:6: Syntax error: token recognition error at: '= '"),
        ("'a", "1:1: Syntax error: token recognition error at: ''a'"),
        ("'\\q'", "1:1: Syntax error: token recognition error at: ''\\q'"),
        ("1 # 2", "1:3: Syntax error: token recognition error at: '#'"),
        ("x", "1:1: undeclared reference to 'x' (in container '')"),
        ("nope(1)", "1:5: undeclared reference to 'nope' (in container '')"),
        ("size(\n  y)", "2:3: undeclared reference to 'y' (in container '')"),
        ("1 + 'a'", "1:3: found no matching overload for '_+_' applied to '(int, string)'"),
        ("'a'.startsWith(1)", "1:15: found no matching overload for 'startsWith' applied to 'string.(int)'"),
        ("[1].foo", "1:4: type 'list(int)' does not support field selection"),
        ("typed.nope", "1:6: undefined field 'nope'"),
        ("typed.name == 1", "1:12: found no matching overload for '_==_' applied to '(string, int)'"),
        ("[1, 'a']", "1:5: expected type 'int' but found 'string'"),
        ("1 && true", "1:1: expected type 'bool' but found 'int'"),
        ("has(self)", "1:5: invalid argument to has() macro"),
        ("[1].all(1, true)", "1:9: argument must be a simple name"),
        ("[1].map(1, true)", "1:9: argument is not an identifier"),
        (
            "{}.sortBy(x, x)",
            "1:1: sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        ),
        ("true.all(x, x)", f"1:1: expression of type 'bool' cannot be range of a comprehension {RANGES}"),
        ("duration('x')", "1:10: invalid duration argument"),
        ("timestamp('x')", "1:11: invalid timestamp argument"),
        ("'a'.matches('(')", "1:13: invalid matches argument"),
        ("quantity('1').a", "1:14: unexpected failed resolution of 'kubernetes.Quantity'"),
        ("'a'.matches('\\\\C')", "1:13: invalid matches argument"),
        ("matches('(', 'a')", "1:9: invalid matches argument"),
        ("duration(5)", "1:10: invalid duration argument"),
        ("timestamp(253402300800)", "1:11: invalid timestamp argument"),
        ("['a', self]", "1:7: expected type 'string' but found 'dyn'"),
        ("{'a': 1, 'b': self}", "1:15: expected type 'int' but found 'dyn'"),
        ("[duration('1s'), null]", "1:18: expected type 'duration' but found 'null'"),
        (
            "'%d'.format(['a'])",
            "1:14: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            "'%s'.format([[quantity('1')]])",
            f"1:23: error during formatting: string clause {WRITABLE}, was given kubernetes.Quantity",
        ),
        ("'%d'.format([1, 2])", "1:12: too many arguments supplied to string.format (expected 1, got 2)"),
        ("'%d %d'.format([1])", "1:15: index 1 out of range"),
        ("'%q'.format([1])", '1:12: could not parse formatting clause: unrecognized formatting clause "q"'),
        ("[1].existsOne(e, e == 1)", "1:14: undeclared reference to 'existsOne' (in container '')"),
        ("kubernetes.Quantity", "1:1: undeclared reference to 'kubernetes' (in container '')"),
        ("for", "1:1: reserved identifier: for"),
        ("for()", "1:1: reserved identifier: for"),
        ("b'\\u0041'", "1:1: unable to unescape string"),
        ("self.`a`", "1:6: unsupported syntax: '`'"),
        ("string{}", "1:7: 'string' is not a message type"),
    ],
)  # fmt: skip
def test_invalid_expression_is_rejected_with_upstreams_text(expression: str, issue: str) -> None:
    environment = base_environment().extended(
        {"self": types.DYN, "typed": types.struct("Typed")}, {"Typed": {"name": types.STRING}}
    )
    with pytest.raises(CompileError) as refused:
        compiled_program(expression, environment)
    assert str(refused.value).split("\n")[0] == f"ERROR: <input>:{issue}"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("int('x')", "type conversion error from 'string' to 'int'"),
        ("'a'.findAll('(')", "error parsing regexp: missing closing ): `(`"),
        ("matches('a', '(')", "error parsing regexp: missing closing ): `(`"),
        ("self[null]", "invalid qualifier type: types.Null"),
    ],
)
def test_invalid_constant_is_reported_before_evaluation(expression: str, text: str) -> None:
    with pytest.raises(ProgramError) as refused:
        compiled_program(expression, base_environment().extended({"self": types.DYN}, {}))
    assert str(refused.value) == text


def test_an_issue_is_shown_below_its_line() -> None:
    with pytest.raises(CompileError) as refused:
        compiled_program("true &&\n\té.b", base_environment().extended({"a": types.BOOL}, {}))
    assert str(refused.value) == ("ERROR: <input>:2:2: Syntax error: token recognition error at: 'é'\n |  é.b\n | .＾")


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("[]", "list(dyn)"),
        ("[1].map(x, string(x))", "list(string)"),
        ("{'a': 1}.?a", "optional_type(int)"),
        ("quantity('1').add(1)", "kubernetes.Quantity"),
        ("self.x", "dyn"),
        ("self.x == 1 ? 'a' : 'b'", "string"),
        ("type(1)", "type(int)"),
    ],
)
def test_expression_has_expected_type(expression: str, kind: str) -> None:
    environment = base_environment().extended({"self": types.DYN}, {})
    assert str(compiled_program(expression, environment)[1]) == kind


def test_an_evaluation_ends_at_its_limit() -> None:
    environment = base_environment().extended({"self": types.DYN}, {})
    program, _kind = compiled_program("self.all(x, self.all(y, self.all(z, x + y + z >= 0)))", environment)
    with pytest.raises(CostExceededError, match="operation cancelled: actual cost limit exceeded"):
        program.evaluate({"self": list(range(1000))}, limit=5000)
