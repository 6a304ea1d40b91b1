"""Proxies become rows of their own: one for each address that accounts name by now."""

import django.db.models.deletion
from django.db import migrations, models

import core.encryption


def move(apps, schema_editor):
    proxies, accounts = apps.get_model("accounts", "Proxy"), apps.get_model("accounts", "Account")
    for url in sorted(set(accounts.objects.exclude(proxy_url="").values_list("proxy_url", flat=True))):
        proxy, _ = proxies.objects.get_or_create(name=url.rpartition("/")[2][:64], defaults={"url": url})
        if proxy.url != url:  # the same host by another scheme
            proxy = proxies.objects.create(name=url[:64], url=url)
        accounts.objects.filter(proxy_url=url).update(proxy=proxy)


class Migration(migrations.Migration):
    atomic = False  # rows are changed and columns dropped, which Postgres wants apart

    dependencies = [
        ("accounts", "0008_upstream_catalogue"),
    ]

    operations = [
        migrations.CreateModel(
            name="Proxy",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=64, unique=True)),
                ("url", models.CharField(max_length=200)),
                ("user", models.CharField(blank=True, max_length=255)),
                ("sealed", core.encryption.SealedField(blank=True, null=True)),
                ("enabled", models.BooleanField(default=True)),
                ("notes", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "verbose_name_plural": "proxies",
                "ordering": ["name"],
            },
        ),
        migrations.AddField(
            model_name="account",
            name="proxy",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="accounts",
                to="accounts.proxy",
            ),
        ),
        migrations.RunPython(move, migrations.RunPython.noop),
        migrations.RemoveField(
            model_name="account",
            name="proxy_url",
        ),
    ]
