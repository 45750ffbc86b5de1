from django.urls import path

from webapp.rest import accounts as api

urlpatterns = [
    path("me", api.MeView.as_view(), name="api-me"),
    path("teams", api.Teams.as_view(), name="api-teams"),
    path("teams/<str:slug>", api.OneTeam.as_view(), name="api-team"),
    path("teams/<str:slug>/members", api.Members.as_view(), name="api-members"),
    path("teams/<str:slug>/members/<str:username>", api.OneMember.as_view(), name="api-member"),
    path("departments", api.Departments.as_view(), name="api-departments"),
    path("departments/<str:slug>", api.OneDepartment.as_view(), name="api-department"),
]
