"""What an execution may ask of target hosts: the gate before each request, and the page quota."""
