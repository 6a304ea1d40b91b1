from __future__ import annotations

import pytest
from msgspec import structs

from accounts.channels import ChannelView
from accounts.compile import AccountKind, AccountState, AccountView, ModelView, Transport
from accounts.naming import Alias, Names
from core.settings import Settings
from gateway import routing
from gateway.snapshot import Snapshot
from ir.errors import ApiError, Kind
from ir.request import Image, Message, Request, Thinking
from tenants.compile import KeyView


def account(
    number: int, *, groups: set[int] | None = None, state: AccountState = AccountState.READY, **more: object
) -> AccountView:
    fields = {"kind": AccountKind.CURSOR, "transport": Transport.AGENT_RPC, "base_url": "http://up", "credential_id": 1}
    return AccountView(
        id=number,
        name=f"a{number}",
        groups=frozenset(groups or {1}),
        state=state,
        **{**fields, **more},  # type: ignore[arg-type]
    )


def key(**more: object) -> KeyView:
    fields = {
        "row_id": 1,
        "public_id": "k",
        "digest": b"",
        "name": "k",
        "team_id": 1,
        "team": "t",
        "groups": frozenset({1}),
    }
    return KeyView(**{**fields, **more})  # type: ignore[arg-type]


def snapshot(*accounts: AccountView, exposed: tuple[str, ...] = ()) -> Snapshot:
    models = [ModelView("base", "base-up"), ModelView("plain", "plain", thinking_parameters={})]
    return Snapshot(
        version=1, settings=Settings(), keys={}, accounts=accounts or (account(1),),
        names=Names(
            models={model.name: model for model in models}, patterns=(ModelView("sim-*", ""),),
            aliases={"fast": Alias("fast", "base"), "deep": Alias("deep", "plain-thinking")},
            alias_patterns=(Alias("gpt-*", "base"),),
        ), sealed={}, exposed=frozenset(exposed),
    )  # fmt: skip


def resolve(
    model: str, *, found: Snapshot | None = None, caller: KeyView | None = None, thinking: bool | None = None
) -> routing.Route:
    return routing.resolve(
        Request(model, (), thinking=Thinking(enabled=thinking)), caller or key(), found or snapshot()
    )


@pytest.mark.parametrize(
    ("model", "thinking", "upstream", "parameters"),
    [
        ("base", None, "base-up", {}),
        ("base", True, "base-up", {"thinking": "true"}),
        ("base", False, "base-up", {}),
        ("base-thinking", None, "base-up", {"thinking": "true"}),
        ("base-thinking", False, "base-up", {"thinking": "true"}),
        ("plain-thinking", None, "plain", {}),
        ("sim-echo", None, "sim-echo", {}),
        ("sim-echo-thinking", None, "sim-echo", {"thinking": "true"}),
    ],
)
def test_a_public_name_leads_to_the_upstreams_name_and_parameters(
    model: str, thinking: bool | None, upstream: str, parameters: dict[str, str]
) -> None:
    route = resolve(model, thinking=thinking)
    assert (route.upstream_id, dict(route.parameters)) == (upstream, parameters)


@pytest.mark.parametrize("model", ["", "nope", "base-thinking-thinking", "-thinking", "sim-" + "x" * 200, "SIM-echo",
                                   "sim-\r\nx-evil: 1", "sim-\0", "sim-a b", "sim-é", "sim-[e]cho"])  # fmt: skip
def test_an_unknown_model_is_a_404(model: str) -> None:
    with pytest.raises(ApiError) as caught:
        resolve(model)
    assert (caught.value.kind, caught.value.code) == (Kind.NOT_FOUND, "model_not_found")


def test_a_model_that_is_not_exposed_does_not_exist_and_neither_does_its_twin() -> None:
    found = snapshot(exposed=("plain",))
    for model in ("base", "base-thinking"):
        with pytest.raises(ApiError, match="does not exist"):
            resolve(model, found=found)
    assert [model.name for model in routing.listed(key(), found)] == ["plain", "plain-thinking", "deep"]
    assert resolve("deep", found=found).served == "plain-thinking"
    for model in ("fast", "gpt-9"):  # aliases of what is not exposed
        with pytest.raises(ApiError, match="does not exist"):
            resolve(model, found=found)


def test_a_key_with_a_list_may_name_nothing_else() -> None:
    limited = key(models=("base", "sim-*"))
    assert resolve("sim-echo", caller=limited).upstream_id == "sim-echo"
    with pytest.raises(ApiError) as caught:
        resolve("base-thinking", caller=limited)
    assert (caught.value.kind, caught.value.code) == (Kind.PERMISSION, "model_not_allowed")
    assert [model.name for model in routing.listed(limited, snapshot())] == ["base", "fast"]


@pytest.mark.parametrize(
    ("model", "served", "upstream", "parameters"),
    [
        ("fast", "base", "base-up", {}),
        ("fast-thinking", "base-thinking", "base-up", {"thinking": "true"}),
        ("gpt-9", "base", "base-up", {}),
        ("deep", "plain-thinking", "plain", {}),
        ("base", "base", "base-up", {}),
        ("sim-x", "sim-x", "sim-x", {}),
    ],
)
def test_the_route_says_what_serves(model: str, served: str, upstream: str, parameters: dict[str, str]) -> None:
    route = resolve(model)
    assert (route.served, route.upstream_id, dict(route.parameters)) == (served, upstream, parameters)


def test_a_list_of_models_is_about_what_is_served_or_names_the_alias() -> None:
    by_target = key(models=("base",))
    assert resolve("gpt-9", caller=by_target).served == "base"
    assert [model.name for model in routing.listed(by_target, snapshot())] == ["base", "fast"]
    by_alias = key(models=("fast", "gpt-*"))
    assert resolve("fast", caller=by_alias).served == "base"
    assert resolve("gpt-9", caller=by_alias).served == "base"
    for model, caller in (("base", by_alias), ("fast-thinking", by_target), ("gpt-9", key(models=("gpt-9",)))):
        with pytest.raises(ApiError) as caught:
            resolve(model, caller=caller)
        assert caught.value.code == "model_not_allowed"


def test_a_fallback_serves_the_names_that_stand_for_nothing_and_no_others() -> None:
    caller = key(models=("plain",), fallback_model="plain")
    assert resolve("from the future", caller=caller).served == "plain"
    assert resolve("nothing-thinking", caller=caller).served == "plain-thinking"
    with pytest.raises(ApiError) as caught:
        resolve("base", caller=caller)
    assert caught.value.code == "model_not_allowed"
    with pytest.raises(ApiError) as caught:
        resolve("nothing", caller=key(fallback_model="gone"))
    assert caught.value.code == "model_not_found"


def test_a_record_names_what_serves_and_nothing_that_a_caller_made_up() -> None:
    assert routing.served_name("gpt-secret", key(), snapshot()) == "base"
    assert routing.served_name("my secret", key(fallback_model="plain"), snapshot()) == "plain"
    assert routing.served_name("my secret", key(), snapshot()) == ""
    assert routing.served_name("base", key(models=("plain",)), snapshot()) == "base"


def test_a_name_is_described_under_itself_unless_the_key_may_not_use_it() -> None:
    assert routing.describe("gpt-9", key(), snapshot()).name == "gpt-9"
    for name, caller in (("nothing", key(fallback_model="plain")), ("base", key(models=("plain",)))):
        with pytest.raises(ApiError) as caught:
            routing.describe(name, caller, snapshot())
        assert caught.value.kind is Kind.NOT_FOUND


def test_only_ready_accounts_of_the_teams_groups_that_serve_the_model_are_candidates() -> None:
    found = snapshot(
        account(1), account(2, groups={2}), account(3, state=AccountState.BLOCKED), account(4, models=("other",)),
        account(5, models=("base-*",)),
    )  # fmt: skip
    assert [candidate.id for candidate in resolve("base", found=found).candidates] == [1, 5]


@pytest.mark.parametrize(
    ("accounts", "reason"),
    [
        ([account(1, groups={2})], "no account group"),
        ([account(1, models=("other",))], "no account serves"),
        ([account(1, state=AccountState.NEEDS_SIGN_IN)], "resting or switched off"),
    ],
)
def test_without_a_candidate_the_answer_tells_why_and_names_no_account(
    accounts: list[AccountView], reason: str
) -> None:
    with pytest.raises(ApiError, match=reason) as caught:
        resolve("base", found=snapshot(*accounts))
    assert (caught.value.kind, caught.value.code) == (Kind.NO_CAPACITY, "no_account")
    assert caught.value.retry_after
    assert "a1" not in caught.value.message


def test_the_accounts_of_a_model_are_looked_for_once_a_snapshot() -> None:
    found = snapshot(account(1), account(2, groups={2}))
    assert resolve("base", found=found).candidates is resolve("base", found=found).candidates
    other = resolve("base", found=found, caller=key(groups=frozenset({2})))
    assert [one.id for one in other.candidates] == [2]


def test_names_that_callers_make_up_fill_no_memory_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "POOLS_KEPT", 3)
    found = snapshot()
    for number in range(10):
        assert resolve(f"sim-{number}", found=found).upstream_id == f"sim-{number}"
        assert len(found.pools) <= 3


def provider(number: int, **models: str) -> AccountView:
    channel = ChannelView("0" * 16, "https://vendor/v1/chat/completions", models)
    return account(number, kind=AccountKind.PROVIDER, transport=Transport.OPENAI_CHAT, channel=channel)


def with_upstream(kind: AccountKind | None, *accounts: AccountView) -> Snapshot:
    names = Names(models={"base": ModelView("base", "base-up", upstream=kind)})
    return structs.replace(snapshot(*accounts), names=names)


@pytest.mark.parametrize(("kind", "asked"), [(None, [1, 2]), (AccountKind.CURSOR, [1]), (AccountKind.PROVIDER, [2])])
def test_a_model_may_name_the_kind_of_account_that_serves_it(kind: AccountKind | None, asked: list[int]) -> None:
    found = with_upstream(kind, account(1), provider(2, **{"base-up": "vendor-1"}))
    assert [one.id for one in resolve("base", found=found).candidates] == asked


def test_a_provider_account_serves_its_own_models_alone() -> None:
    found = with_upstream(None, provider(1, other="x"), provider(2, **{"base-up": "vendor-1"}))
    assert [one.model_id("base-up") for one in resolve("base", found=found).candidates] == ["vendor-1"]


def test_no_account_of_the_kind_is_said_in_words() -> None:
    with pytest.raises(ApiError, match="no account serves this model"):
        resolve("base", found=with_upstream(AccountKind.PROVIDER, account(1)))


def with_images(count: int) -> Request:
    return Request("base", (Message("user", (Image("image/png", "AAAA"),) * count),))


def test_images_go_only_to_accounts_whose_transport_takes_so_many() -> None:
    rpc = account(1)
    cloud = account(2, transport=Transport.CLOUD_AGENTS)
    text = account(3, kind=AccountKind.TEXT_CHAT, transport=Transport.TEXT_CHAT)
    found = snapshot(rpc, cloud, text)
    assert [len(routing.resolve(with_images(count), key(), found).candidates) for count in (0, 1, 5, 6)] == [3, 2, 2, 1]


@pytest.mark.parametrize(
    ("transport", "count", "code"),
    [(Transport.CLOUD_AGENTS, 6, "too_many_images"), (Transport.TEXT_CHAT, 1, "unsupported_content_type")],
)
def test_images_that_nobody_takes_are_refused_by_name(transport: Transport, count: int, code: str) -> None:
    with pytest.raises(ApiError) as refused:
        routing.resolve(with_images(count), key(), snapshot(account(1, transport=transport)))
    assert (refused.value.kind, refused.value.code) == (Kind.INVALID_REQUEST, code)


def test_a_model_may_be_bound_to_a_transport() -> None:
    accounts = (account(1), account(2, transport=Transport.CLOUD_AGENTS), account(3, transport=Transport.AUTO))
    bound = structs.replace(
        snapshot(*accounts), names=Names(models={"c": ModelView("c", "c", upstream=Transport.CLOUD_AGENTS)})
    )
    assert [one.id for one in resolve("c", found=bound).candidates] == [2]
