"""Where models come from. What is in the catalogue by now may be an admin's choice, so the upstream changes none of it."""

from django.db import migrations, models

COLUMNS = [
    "context_tokens", "display_name", "enabled", "max_mode", "max_output_tokens", "owner", "parameters",
    "thinking_parameters", "upstream", "upstream_id",
]  # fmt: skip


def keep(apps, schema_editor):
    apps.get_model("accounts", "CatalogueModel").objects.filter(alias_of="").update(overrides=COLUMNS)


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0007_draining"),
    ]

    operations = [
        migrations.AddField(
            model_name="cataloguemodel",
            name="max_mode",
            field=models.BooleanField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="cataloguemodel",
            name="missing_since",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="cataloguemodel",
            name="overrides",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name="cataloguemodel",
            name="source",
            field=models.CharField(
                choices=[("admin", "Admin"), ("seed", "Seed"), ("upstream", "Upstream")], default="admin", max_length=16
            ),
        ),
        migrations.RunPython(keep, migrations.RunPython.noop),
    ]
