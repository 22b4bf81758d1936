"""Which jobs run where and when: policies, the simulator that plays them, and what no schedule can beat."""
