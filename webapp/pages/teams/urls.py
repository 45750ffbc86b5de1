from django.urls import path

from webapp.pages.teams import costs, members, quota, secrets, share, shares

app_name = "teams"
urlpatterns = [
    path("shares/", shares.shares, name="shares"),
    path("teams/<slug:slug>/use.json", quota.use, name="use"),
    path("teams/<slug:slug>/quota/", quota.edit, name="edit"),
    path("teams/<slug:slug>/share/", share.share, name="share"),
    path("teams/<slug:slug>/costs/", costs.costs, name="costs"),
    path("teams/<slug:slug>/members/", members.members, name="members"),
    path("teams/<slug:slug>/members/<int:user_id>/role/", members.role, name="member_role"),
    path("teams/<slug:slug>/members/<int:user_id>/remove/", members.remove, name="member_remove"),
    path("teams/<slug:slug>/secrets/", secrets.secrets, name="secrets"),
    path("teams/<slug:slug>/secrets/<str:name>/delete/", secrets.delete, name="secret_delete"),
]
