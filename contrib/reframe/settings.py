"""A site with three ways to its hosts. Name your own hosts, and remove what you do not have."""

site_configuration = {
    "systems": [
        {
            "name": "lab",
            "hostnames": [".*"],
            "partitions": [
                {
                    "name": "here",
                    "scheduler": "local",
                    "launcher": "local",
                    "environs": ["builtin"],
                },
                {
                    "name": "ssh",
                    "scheduler": "ssh",
                    "launcher": "local",
                    "environs": ["builtin"],
                    "sched_options": {"ssh_hosts": ["host-a", "host-b"]},
                },
                {
                    "name": "slurm",
                    "scheduler": "squeue",
                    "launcher": "local",
                    "environs": ["builtin"],
                    "sched_options": {"use_nodes_option": True},
                },
            ],
        }
    ]
}
