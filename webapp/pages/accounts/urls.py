from django.urls import path

from webapp.pages.accounts import views

app_name = "accounts"
urlpatterns = [
    path("login/", views.login, name="login"),
    path("set-password/<str:uid>/<str:token>/", views.set_password, name="set_password"),
    path("logout/", views.logout, name="logout"),
    path("settings/", views.settings, name="settings"),
    path("settings/profile/", views.profile, name="profile"),
    path("settings/mail/", views.mail, name="mail"),
    path("settings/password/", views.password, name="password"),
    path("settings/tokens/", views.token_create, name="token_create"),
    path("settings/tokens/<int:token_id>/revoke/", views.token_revoke, name="token_revoke"),
    path("teams/<slug:slug>/", views.team, name="team"),
    path("teams/<slug:slug>/members/", views.member_add, name="member_add"),
    path("teams/<slug:slug>/members/<int:user_id>/role/", views.member_role, name="member_role"),
    path("teams/<slug:slug>/members/<int:user_id>/remove/", views.member_remove, name="member_remove"),
    path("teams/<slug:slug>/secrets/", views.secret_set, name="secret_set"),
    path("teams/<slug:slug>/secrets/<str:name>/delete/", views.secret_delete, name="secret_delete"),
]
