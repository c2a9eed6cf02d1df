// SPDX-License-Identifier: Apache-2.0
// Loads a shared object from memory: sealed, hashed, then mapped, so that what was checked is what
// runs.
#include "autopar/Runtime/KernelLibrary.h"

#include "autopar/Base/OutputFile.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace autopar::runtime {
namespace {

std::string_view textOf(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

/// The file as the loader will see it still has the digest that the table of contents promised.
bool isIntact(int fd, size_t bytes, const Digest &digest) {
  void *mapping = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (mapping == MAP_FAILED)
    return false;
  bool same = Digest::of(mapping, bytes) == digest;
  munmap(mapping, bytes);
  return same;
}

/// -1 and errno where there can be no such file.
int createSealed(std::span<const uint8_t> bytes) {
  int fd = memfd_create("autopar-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return -1;
  if (!writeAll(fd, textOf(bytes)) ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    int why = errno;
    close(fd);
    errno = why;
    return -1;
  }
  return fd;
}

void *open(const std::string &path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); }

/// For systems that refuse to execute memory files: a private file, unlinked once it is mapped.
void *openPrivateFile(std::span<const uint8_t> bytes, const Digest &digest, int &fd) {
  const char *folder = std::getenv("TMPDIR");
  std::string path = std::string(folder && *folder ? folder : "/tmp") + "/autopar-kernels-XXXXXX";
  fd = mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0)
    return nullptr;
  void *handle =
      fchmod(fd, 0500) == 0 && writeAll(fd, textOf(bytes)) && isIntact(fd, bytes.size(), digest)
          ? open(path)
          : nullptr;
  unlink(path.c_str());
  return handle;
}

} // namespace

Result<std::shared_ptr<const KernelLibrary>>
KernelLibrary::load(std::span<const uint8_t> bytes, const Digest &digest,
                    const std::vector<std::string> &symbols) {
  std::shared_ptr<KernelLibrary> library(new KernelLibrary);
  library->fd = createSealed(bytes);
  std::string reason = library->fd < 0 ? std::strerror(errno) : "";
  if (library->fd < 0 && errno == EFBIG)
    return Status::ioError("cannot write the " + std::to_string(bytes.size()) +
                           " bytes of kernels to a memory file: " + reason +
                           "; raise the limit of file sizes (ulimit -f)");
  if (library->fd >= 0) {
    if (!isIntact(library->fd, bytes.size(), digest))
      return Status::badInput("kernels: the digest does not match");
    library->handle = open("/proc/self/fd/" + std::to_string(library->fd));
    if (!library->handle)
      reason = dlerror();
  }
  if (!library->handle) {
    int memory = library->fd;
    library->handle = openPrivateFile(bytes, digest, library->fd);
    if (memory >= 0)
      close(memory);
  }
  if (!library->handle) {
    const char *second = dlerror();
    return Status(StatusCode::NoPermission,
                  "the kernels cannot be mapped for execution (" + reason +
                      (second ? std::string("; ") + second : "") +
                      "); allow executable memory files (sysctl vm.memfd_noexec) or set TMPDIR to "
                      "a folder that is "
                      "not mounted noexec");
  }
  for (const std::string &symbol : symbols) {
    void *address = dlsym(library->handle, symbol.c_str());
    if (!address)
      return Status::badInput("kernels: symbol " + symbol + " is missing");
    library->functions.push_back(reinterpret_cast<KernelFunction>(address));
  }
  return std::shared_ptr<const KernelLibrary>(library);
}

KernelLibrary::~KernelLibrary() {
  if (handle)
    dlclose(handle);
  if (fd >= 0)
    close(fd);
}

} // namespace autopar::runtime
