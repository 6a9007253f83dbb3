"""What must hold in every run of the simulator, whatever goes wrong in it."""
