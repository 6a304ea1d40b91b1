"""The panel's pages. A route without a row in ``panel.access.RULES`` answers 404."""

from __future__ import annotations

from django.urls import path

from panel.account_pages import account, account_act, account_delete, account_key, account_new
from panel.accounts import account_test, accounts
from panel.api import api
from panel.jobs import jobs, jobs_live
from panel.keys import key, key_new, key_revoke, keys
from panel.overview import overview, overview_chart, overview_live
from panel.requests import request, requests
from panel.settings import settings, settings_history, settings_save
from panel.sign_in import password, sign_in, sign_out

urlpatterns = [
    path("", overview, name="overview"),
    path("overview/live", overview_live, name="overview_live"),
    path("overview/chart", overview_chart, name="overview_chart"),
    path("requests", requests, name="requests"),
    path("requests/<str:request_id>", request, name="request"),
    path("accounts", accounts, name="accounts"),
    path("accounts/test", account_test, name="account_test"),
    path("accounts/new/<str:kind>", account_new, name="account_new"),
    path("accounts/<int:number>", account, name="account"),
    path("accounts/<int:number>/act", account_act, name="account_act"),
    path("accounts/<int:number>/key", account_key, name="account_key"),
    path("accounts/<int:number>/delete", account_delete, name="account_delete"),
    path("jobs", jobs, name="jobs"),
    path("jobs/live", jobs_live, name="jobs_live"),
    path("keys", keys, name="keys"),
    path("keys/new", key_new, name="key_new"),
    path("keys/<str:public_id>", key, name="key"),
    path("keys/<str:public_id>/revoke", key_revoke, name="key_revoke"),
    path("settings", settings, name="settings"),
    path("settings/save", settings_save, name="settings_save"),
    path("settings/history", settings_history, name="settings_history"),
    path("sign-in", sign_in, name="sign_in"),
    path("sign-out", sign_out, name="sign_out"),
    path("password", password, name="password"),
    path("api/", api.urls),
]
