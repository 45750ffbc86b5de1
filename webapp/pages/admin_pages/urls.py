from django.urls import path

from webapp.pages.admin_pages import prices, teams, users

app_name = "admin_pages"
urlpatterns = [
    path("manage/users/", users.users, name="users"),
    path("manage/users/invite/", users.invite, name="invite"),
    path("manage/users/<str:username>/reset-password/", users.reset_password, name="reset_password"),
    path("manage/users/<str:username>/deactivate/", users.deactivate, name="deactivate"),
    path("manage/users/<str:username>/reactivate/", users.reactivate, name="reactivate"),
    path("manage/users/<str:username>/admin/", users.set_admin, name="set_admin"),
    path("manage/teams/", teams.teams, name="teams"),
    path("manage/teams/create/", teams.create_team, name="create_team"),
    path("manage/teams/<slug:slug>/change/", teams.change_team, name="change_team"),
    path("manage/teams/<slug:slug>/archive/", teams.archive_team, name="archive_team"),
    path("manage/teams/<slug:slug>/restore/", teams.restore_team, name="restore_team"),
    path("manage/departments/", teams.departments, name="departments"),
    path("manage/departments/create/", teams.create_department, name="create_department"),
    path("manage/departments/<slug:slug>/change/", teams.change_department, name="change_department"),
    path("manage/departments/<slug:slug>/delete/", teams.delete_department, name="delete_department"),
    path("manage/prices/", prices.prices, name="prices"),
    path("manage/prices/set/", prices.set_price, name="set_price"),
    path("manage/quotas/", prices.quotas, name="quotas"),
]
