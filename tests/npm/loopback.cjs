// The servers of others listen on every address of a host. In tests they listen on its loopback, and say on which port.
const { Server } = require("node:net");

const listen = Server.prototype.listen;
Server.prototype.listen = function (port, ...rest) {
  this.once("listening", () => process.stdout.write(`port ${this.address().port}\n`));
  return listen.call(this, { port: Number(port), host: "127.0.0.1" }, ...rest);
};
