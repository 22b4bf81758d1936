"""Learning from ended runs: profiles of the machines that they ran on, and the accuracy of predictions."""
