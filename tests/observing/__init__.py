"""What admins observe: the page of all metrics, the dashboards of the chart, and that their queries have answers."""
