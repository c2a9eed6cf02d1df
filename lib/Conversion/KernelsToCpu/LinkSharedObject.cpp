// SPDX-License-Identifier: Apache-2.0
// Objects to one shared object with lld, in this process and without a folder for temporary files:
// objects go in as memory files, the result comes back through a pipe. (To what is a file, lld
// writes beside it and renames.)
#include "Stages.h"

#include "lld/Common/Driver.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <mutex>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace autopar::cpu {
namespace {

/// A file in memory, closed at the end of its scope.
class MemoryFile {
public:
  MemoryFile() : descriptor(memfd_create("kernel", MFD_CLOEXEC)) {}
  MemoryFile(MemoryFile &&other) : descriptor(std::exchange(other.descriptor, -1)) {}
  ~MemoryFile() {
    if (descriptor >= 0)
      close(descriptor);
  }
  bool write(ArrayRef<char> bytes) {
    while (descriptor >= 0 && !bytes.empty()) {
      ssize_t done = ::write(descriptor, bytes.data(), bytes.size());
      if (done <= 0)
        return false;
      bytes = bytes.drop_front(done);
    }
    return descriptor >= 0;
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor); }

private:
  int descriptor;
};

/// What is written to `path()`, until finish().
class PipedFile {
public:
  PipedFile() {
    if (pipe2(ends, O_CLOEXEC) == 0)
      reader = std::thread([this] { readAll(); });
  }
  ~PipedFile() { finish(); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(ends[1]); }
  std::vector<char> finish() {
    if (reader.joinable()) {
      close(ends[1]);
      reader.join();
      close(ends[0]);
    }
    return std::move(bytes);
  }

private:
  void readAll() {
    char part[1 << 16];
    for (ssize_t count; (count = read(ends[0], part, sizeof(part))) != 0;)
      if (count > 0)
        bytes.insert(bytes.end(), part, part + count);
      else if (errno != EINTR)
        return;
  }

  int ends[2] = {-1, -1};
  std::vector<char> bytes;
  std::thread reader;
};

/// lld resets every command-line option of the process to its default. Those that were given on the
/// command line are hidden from it for the lifetime of this object.
class KeepCommandLineOptions {
public:
  KeepCommandLineOptions() {
    for (cl::SubCommand *command : cl::getRegisteredSubcommands()) {
      for (cl::Option *option : llvm::make_second_range(command->OptionsMap))
        hide(option);
      for (cl::Option *option : command->PositionalOpts)
        hide(option);
      for (cl::Option *option : command->SinkOpts)
        hide(option);
    }
    for (cl::Option *option : hidden)
      option->removeArgument();
  }
  ~KeepCommandLineOptions() {
    for (cl::Option *option : hidden)
      option->addArgument();
  }

private:
  void hide(cl::Option *option) {
    if (option->getNumOccurrences() > 0)
      hidden.insert(option);
  }
  SetVector<cl::Option *> hidden;
};

Error runLinker(ArrayRef<std::string> inputs, StringRef output) {
  std::string outputName = output.str();
  std::vector<const char *> arguments = {"ld.lld",
                                         "-shared",
                                         "--gc-sections",
                                         "-z",
                                         "noseparate-code",
                                         "--hash-style=gnu",
                                         "--build-id=none",
                                         "-z",
                                         "defs",
                                         "--strip-all",
                                         "--threads=1",
                                         "-m",
                                         "elf_x86_64",
                                         "-o",
                                         outputName.c_str()};
  for (const std::string &input : inputs)
    arguments.push_back(input.c_str());
  static std::mutex mutex; // lld keeps its state in globals
  static bool usable = true;
  std::lock_guard<std::mutex> lock(mutex);
  if (!usable)
    return createStringError(
        "an earlier failure left the linker unusable in this process; start a new one");
  KeepCommandLineOptions keep;
  std::string messages;
  raw_string_ostream stream(messages);
  lld::Result result = lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  usable = result.canRunAgain;
  if (result.retCode != 0)
    return createStringError("linking failed: " + messages);
  return Error::success();
}

} // namespace

Expected<std::vector<char>> linkSharedObject(ArrayRef<Unit> units) {
  std::vector<MemoryFile> files;
  std::vector<std::string> paths;
  for (const Unit &unit : units) {
    MemoryFile file;
    if (!file.write(unit.code))
      return createStringError("cannot write the object of kernel '" + unit.name +
                               "' to a memory file");
    paths.push_back(file.path());
    files.push_back(std::move(file));
  }
  PipedFile linked;
  if (Error error = runLinker(paths, linked.path()))
    return std::move(error);
  return linked.finish();
}

} // namespace autopar::cpu
