"""Django's settings. What differs between installations comes from the environment or the data dir.

Knobs that an admin turns at run time are not here: they are rows, see ``core.settings``.
"""

from __future__ import annotations

import os

from config.environment import ROOT, data_dir, find, find_list, parse_database_url, upstream_hosts
from config.timetable import TIMETABLE

BASE_DIR = ROOT
DATA_DIR = data_dir()

SECRET_KEY = find("SECRET_KEY")
POOLGATE_KEY_PEPPER = find("POOLGATE_KEY_PEPPER")
POOLGATE_ENCRYPTION_KEYS = find_list("POOLGATE_ENCRYPTION_KEYS")
POOLGATE_METRICS_TOKEN = find("POOLGATE_METRICS_TOKEN")
POOLGATE_UPSTREAM_HOSTS = upstream_hosts()
POOLGATE_PRIVATE_NETWORKS = find_list("POOLGATE_PRIVATE_NETWORKS")
POOLGATE_TIMETABLE = TIMETABLE
REDIS_URL = find("REDIS_URL")

DEBUG = False
ALLOWED_HOSTS = find_list("POOLGATE_ALLOWED_HOSTS") or ["localhost", "127.0.0.1", "[::1]"]
CSRF_TRUSTED_ORIGINS = find_list("POOLGATE_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "config",
    "panel",
    "gateway",
    "ops",
    "accounts",
    "tenants",
    "core",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "ninja",  # for the files of its documentation page
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "panel.access.AccessMiddleware",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "panel.context.surroundings",
            ],
        },
    }
]

# Without an address there is no database at all (Django's dummy backend): commands that need none still run.
_DATABASE_URL = find("DATABASE_URL")
DATABASES = {"default": parse_database_url(_DATABASE_URL)} if _DATABASE_URL else {}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Served by ourselves, straight from the source tree: nothing to collect, and no web server needed in front.
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_AUTOREFRESH = False
SERVESTATIC_ALLOW_ALL_ORIGINS = False
SERVESTATIC_MAX_AGE = 3600

LOGIN_URL = "sign_in"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}", "OPTIONS": options}
    for name, options in {
        "UserAttributeSimilarityValidator": {},
        "MinimumLengthValidator": {"min_length": 12},
        "CommonPasswordValidator": {},
        "NumericPasswordValidator": {},
    }.items()
]

# Cookies do not tell ports apart: without the port in the name, two instances on one host sign each other out.
_COOKIE_SUFFIX = os.environ.get("POOLGATE_PORT", "")
SESSION_COOKIE_NAME = f"poolgate_session{_COOKIE_SUFFIX}"
CSRF_COOKIE_NAME = f"poolgate_csrf{_COOKIE_SUFFIX}"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = os.environ.get("POOLGATE_HTTPS", "") == "1"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if SESSION_COOKIE_SECURE else None
SECURE_HSTS_SECONDS = int(os.environ.get("POOLGATE_HSTS_SECONDS", "0")) if SESSION_COOKIE_SECURE else 0
SESSION_COOKIE_AGE = 12 * 3600
CSRF_COOKIE_HTTPONLY = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": "core.logs.Formatter", "format": "%(asctime)s %(levelname)s %(name)s: %(message)s"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    # httpx2 logs a line for every call, with the address called.
    "loggers": {
        "httpx2": {"level": "WARNING"},
        # The page says what to do; on a public address scanners would write a traceback each.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
    },
}
