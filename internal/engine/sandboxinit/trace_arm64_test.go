package sandboxinit

const mkdirNumber = 34 // mkdirat
