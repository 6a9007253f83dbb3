"""What actors stand on: spawning, clock, tables, queues, API client, serving, the simulator, the embedded cluster."""
