"""The commands of `checkvisor`, one file a group. A command returns its exit status; None is 0."""
