from django.urls import path

from webapp.pages.overview import audit, cluster, home, search

app_name = "overview"
urlpatterns = [
    path("", home.home, name="home"),
    path("work/", home.work, name="work"),
    path("cluster/", cluster.cluster, name="cluster"),
    path("audit/", audit.audit, name="audit"),
    path("search/", search.search, name="search"),
]
