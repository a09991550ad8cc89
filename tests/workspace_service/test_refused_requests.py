"""P14, P19: what a command's answer says of its refused requests, whose words are the command's."""

from gloveport.model.egress import Api, Egress, Exchange
from gloveport.workspace_service.refused_requests import explain_refused, explain_unresolved, remedy_for

EGRESS = Egress(apis={"one": Api(hosts=("one.test",)), "all": Api(hosts=("*.many.test",))})
REFUSED = "host_not_granted"


def exchange(url, code=REFUSED):
    return Exchange(method="GET", url=url, code=code, reason="No.")


def explained(*exchanges, clean=str):
    return [(one.what, one.remedy) for one in explain_refused(exchanges, EGRESS, clean)]


def test_what_was_answered_is_not_told():
    assert explained(Exchange(method="GET", url="https://one.test/", status=404)) == []


def test_each_kind_of_refusal_is_told_once_for_each_host_and_few_are():
    many = [exchange(f"https://h{number // 2}.test/{number}") for number in range(100)]
    told = explained(*many)
    hosts = [what.partition("://")[2].partition("/")[0] for what, _ in told]
    assert hosts == [f"h{number}.test" for number in range(5)]
    assert len(explained(exchange("https://a.test/"), exchange("https://a.test/", "port_not_granted"))) == 2


def test_escapes_and_secrets_of_a_url_are_not_shown():
    (told,) = explained(
        exchange("https://x\x1b]52;c;AA==\x07\u202e.test/key"), clean=lambda text: text.replace("key", "[KEY]")
    )
    assert not {"\x1b", "\x07", "\u202e"} & set("".join(told))
    assert "[KEY]" in told[0]


def test_the_line_that_helps_is_the_shortest_one():
    assert remedy_for("one.test", EGRESS).endswith('hosts = ["one.test"] in [workspace]')
    assert "[api." not in remedy_for("x.many.test", EGRESS)
    assert '"@crates"' in remedy_for("static.crates.io", EGRESS)
    assert '[api.NAME] hosts = ["other.test"]' in remedy_for("other.test", EGRESS)


def test_names_that_lead_nowhere_are_told_with_the_line_that_helps():
    said = "download of config.json failed: could not resolve host: index.crates.io. one.test, x.many.test"
    told = {one.what: one.remedy for one in explain_unresolved(said, EGRESS, Egress())}
    assert [*told] == ["the name index.crates.io was not found", "the name one.test was not found"]
    assert ['hosts = ["@crates"]' in one for one in told.values()] == [True, False]
    assert 'hosts = ["one.test"]' in told["the name one.test was not found"]


def test_a_name_that_was_granted_or_is_part_of_another_is_not_told():
    assert explain_unresolved("pypi.org.evil.test xpypi.org x.pypi.org my-pypi.org", EGRESS, Egress()) == ()
    assert explain_unresolved("one.test", EGRESS, EGRESS) == ()
    assert explain_unresolved("pypi.org", EGRESS, Egress(yolo=True)) == ()


def test_a_refusal_of_another_kind_is_the_owners_word():
    ((_, remedy),) = explained(exchange("https://one.test/", "method_or_path_not_allowed"))
    assert "owner" in remedy
