// SPDX-License-Identifier: Apache-2.0
// Finds and opens transport plugins at run time, so that the runtime itself needs neither MPI nor
// Gloo.
#include "autopar/Runtime/Transport.h"

#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>
#include <vector>

namespace autopar::runtime {
namespace {

/// Folder of the program or library that holds this code.
std::string ownFolder() {
  Dl_info info{};
  std::string path;
  if (dladdr(reinterpret_cast<void *>(&loadTransport), &info) && info.dli_fname)
    path = info.dli_fname;
  if (path.find('/') == std::string::npos) {
    char buffer[4096];
    ssize_t n = readlink("/proc/self/exe", buffer, sizeof(buffer));
    if (n > 0)
      path.assign(buffer, size_t(n));
  }
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

} // namespace

Result<std::unique_ptr<Transport>> loadTransport(const std::string &name,
                                                 const TransportOptions &options) {
  std::string file = "libautopar_" + name + ".so";
  std::vector<std::string> folders;
  if (const char *path = std::getenv("AUTOPAR_PLUGIN_PATH"))
    folders.push_back(path);
  std::string own = ownFolder();
  folders.insert(folders.end(), {own, own + "/../lib", own + "/../lib/x86_64-linux-gnu"});
  void *handle = nullptr;
  std::string reasons;
  for (const std::string &folder : folders) {
    // MPI wants its symbols to be visible to the libraries that it opens itself.
    std::string path = folder + "/" + file;
    if (access(path.c_str(), R_OK) != 0)
      continue;
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle)
      break;
    reasons += std::string("; ") + dlerror();
  }
  if (!handle)
    return Status(StatusCode::NoDevice, "the " + name + " plugin " + file + " is not in " + own +
                                            "/../lib nor in "
                                            "AUTOPAR_PLUGIN_PATH" +
                                            reasons +
                                            "; it is built where the library's development "
                                            "package is installed");
  auto create = reinterpret_cast<CreateTransportFunction>(dlsym(handle, "autoparCreateTransport"));
  if (!create)
    return Status(StatusCode::NoDevice, file + " is not a transport plugin");
  Status status;
  std::unique_ptr<Transport> transport(create(&options, &status));
  if (!transport)
    return status.isOk() ? Status::internal(file + " gave no transport") : status;
  return transport;
}

} // namespace autopar::runtime
