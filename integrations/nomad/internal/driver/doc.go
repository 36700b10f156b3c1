// Package driver is a task driver for Nomad: a job with driver = "sbxhost" runs its
// tasks in sandboxes, whose definitions lie on the node.
//
// Three processes take part. The agent starts the driver, and speaks Nomad's plugin
// protocol to it. The driver starts an executor for each task, and passes the agent's
// calls on to it by the same protocol: the driver answers a call that needs no task, and the
// executor every other one. The executor has the host, the engine and the command. It is in a
// session of its own, so that the task goes on when agent and driver end; the next driver finds it
// by its socket.
//
// The promise: a task runs in a sandbox that the node's operator has defined and allowed.
// A job chooses one, and can only narrow it. The driver refuses what a job asks for and a sandbox
// cannot enforce, by its name in the job.
//
// The limits: the executor is trusted as the driver is. The sandbox limits a task's memory, and its
// processor time only if the job has cpu_hard_limit.
//
// It links nothing of Nomad except the generated code of its protocol.
package driver
