"""Which jobs run where and when: policies, the simulator that runs them, and lower bounds on the cost."""
