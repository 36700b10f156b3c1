package sandboxinit

const mkdirNumber = 83
