"""What actors stand on: spawning, clock, tables, queues, the API client, serving, the simulator, the embedded cluster."""
