from django.urls import path

from webapp.pages.accounts import views
from webapp.pages.teams import quota

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
    path("teams/<slug:slug>/", quota.quota, name="team"),
]
