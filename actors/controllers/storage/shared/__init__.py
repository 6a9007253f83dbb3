"""What several controllers of volumes need."""
