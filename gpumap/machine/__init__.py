"""What this machine is made of, how busy it is, and which of its cores a thread may run on."""
