from django.urls import path

from webapp.pages.reports import sharing, views

app_name = "reports"
urlpatterns = [
    path("reports/", views.report_list, name="list"),
    path("reports/new/", views.create, name="create"),
    path("reports/shared/<str:token>/", sharing.shared, name="shared"),
    path("reports/shared/<str:token>/charts/<int:number>/", sharing.shared_chart, name="shared-chart"),
    path("reports/shared/<str:token>/images/<int:number>/", sharing.shared_image, name="shared-image"),
    path("reports/<str:report_id>/", views.detail, name="detail"),
    path("reports/<str:report_id>/edit/", views.edit, name="edit"),
    path("reports/<str:report_id>/delete/", views.delete, name="delete"),
    path("reports/<str:report_id>/restore/", views.restore, name="restore"),
    path(
        "reports/<str:report_id>/versions/<int:number>/restore/",
        views.restore_version,
        name="restore-version",
    ),
    path("reports/<str:report_id>/comments/", views.comment, name="comment"),
    path(
        "reports/<str:report_id>/comments/<int:comment_id>/delete/",
        views.delete_comment,
        name="delete-comment",
    ),
    path("reports/<str:report_id>/links/", sharing.create_link, name="create-link"),
    path("reports/<str:report_id>/links/<int:link_id>/revoke/", sharing.revoke_link, name="revoke-link"),
]
