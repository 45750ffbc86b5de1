from django.urls import path

from webapp.rest import artifacts as api

urlpatterns = [
    path("uploads", api.Uploads.as_view(), name="api-uploads"),
    path("uploads/<str:upload_id>/files/<path:path>", api.UploadFile.as_view(), name="api-upload-file"),
    path("uploads/<str:upload_id>/complete", api.UploadCompletion.as_view(), name="api-upload-complete"),
    path("datasets/<str:name>/snapshots", api.Snapshots.as_view(), name="api-snapshots"),
]
