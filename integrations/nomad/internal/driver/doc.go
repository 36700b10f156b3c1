// Package driver is a task driver for Nomad: a job with driver = "sbxhost" runs its
// tasks in sandboxes, whose definitions lie on the node.
//
// Three processes take part. The agent starts the driver, and speaks Nomad's plugin
// protocol to it. The driver starts an executor for each task, and passes the agent's
// calls on to it by the same protocol: a call that needs no task is the driver's, every
// other one the executor's. The executor has the host, the engine and the command. It is
// in a session of its own, so that the task goes on when agent and driver end; the next
// driver finds it by its socket.
//
// The promise: a task runs in a sandbox that the node's operator has defined and allowed.
// A job chooses one, and can only narrow it. What it asks for and a sandbox does not hold
// is refused, by its name in the job.
//
// The limits: the executor is trusted as the driver is. A task's memory is limited by the
// sandbox, its processor time only where the job says cpu_hard_limit.
//
// Of Nomad it links the generated code of its protocol alone.
package driver
