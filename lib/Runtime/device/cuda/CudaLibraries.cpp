// SPDX-License-Identifier: Apache-2.0
// Opens libraries by soname and finds their functions.
#include "CudaLibraries.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <sstream>
#include <unistd.h>

namespace autopar::runtime::cuda {
namespace {

Status missing(std::string text) { return {StatusCode::NoDevice, std::move(text)}; }

std::vector<std::string> splitFolders(const std::string &text) {
  std::vector<std::string> folders;
  std::istringstream in(text);
  for (std::string folder; std::getline(in, folder, ':');)
    if (!folder.empty())
      folders.push_back(folder);
  return folders;
}

std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Of NCCL and cuDNN.
std::string threePartText(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

/// The address of a function as the type of the member that keeps it.
template <typename F>
Status find(void *library, const char *symbol, F &function) {
  void *address = dlsym(library, symbol);
  if (!address)
    return missing(std::string("it has no function ") + symbol + "; a newer version is needed");
  function = reinterpret_cast<F>(address);
  return Status::ok();
}

} // namespace

Result<std::shared_ptr<CudaLibraries>> CudaLibraries::open(const std::string &folders) {
  static std::mutex mutex;
  static std::string knownFolders;
  static std::shared_ptr<CudaLibraries> known;
  const char *variable = std::getenv("AUTOPAR_CUDA_LIBRARIES");
  std::string all = folders + ":" + (variable ? variable : "");
  std::lock_guard lock(mutex);
  if (known && knownFolders == all)
    return known;
  std::shared_ptr<CudaLibraries> libraries(new CudaLibraries(splitFolders(all)));
  AUTOPAR_RETURN_IF_ERROR(libraries->openDriver());
  known = libraries;
  knownFolders = all;
  return known;
}

Result<void *> CudaLibraries::openAny(const std::vector<std::string> &sonames,
                                      const std::string &use) const {
  for (const std::string &folder : folders)
    for (const std::string &soname : sonames) {
      std::string path = folder + "/" + soname;
      if (access(path.c_str(), F_OK) != 0)
        continue;
      if (void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
        return library;
      return missing(use + " cannot be opened: " + dlerror());
    }
  std::string tried;
  for (const std::string &soname : sonames) {
    if (void *library = dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL))
      return library;
    tried += (tried.empty() ? "" : " nor ") + soname;
  }
  std::string where;
  for (const std::string &folder : folders)
    where += folder + ", ";
  return missing(use + " is missing: " + (sonames.size() > 1 ? "neither " : "no ") + tried +
                 " in " + where +
                 "the system's library folders; --cuda-libraries FOLDER or AUTOPAR_CUDA_LIBRARIES "
                 "says where it is");
}

Status CudaLibraries::openDriver() {
  auto library = openAny({"libcuda.so.1"}, "the CUDA driver");
  if (!library)
    return library.status();
#define AUTOPAR_FIND(name, symbol, parameters)                                                     \
  AUTOPAR_RETURN_IF_ERROR(                                                                         \
      find(*library, #symbol, calls.name).at("the CUDA driver (libcuda.so.1) is too old"));
  AUTOPAR_CUDA_DRIVER_CALLS(AUTOPAR_FIND)
#undef AUTOPAR_FIND
  // With fewer channels to the GPU than streams, one stream may wait behind another.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  DriverError started = calls.init(0);
  if (started == DriverError::NoDevice)
    return missing(
        "the CUDA driver finds no GPU on this machine (CUDA_VISIBLE_DEVICES may hide it)");
  if (started != DriverError::Success)
    return missing(check(started, "the CUDA driver does not start").message());
  AUTOPAR_RETURN_IF_ERROR(check(calls.driverGetVersion(&version), "cuDriverGetVersion"));
  if (version < kOldestDriver)
    return missing("the CUDA driver is too old: it offers CUDA " + versionText(version) +
                   ", needed is " + versionText(kOldestDriver) + " or newer");
  AUTOPAR_RETURN_IF_ERROR(check(calls.deviceGetCount(&devices), "cuDeviceGetCount"));
  return devices > 0 ? Status::ok()
                     : missing("the CUDA driver finds no GPU on this machine (CUDA_VISIBLE_DEVICES "
                               "may hide it)");
}

Result<const BlasLtCalls *> CudaLibraries::blasLt() {
  std::lock_guard lock(mutex);
  if (!blasCalls) {
    auto library =
        openAny(ofCudaVersions("libcublasLt.so"), "cuBLASLt, which multiplies matrices,");
    if (!library)
      return library.status().at("with a driver of CUDA " + versionText(version));
    BlasLtCalls found;
#define AUTOPAR_FIND(name, symbol, parameters)                                                     \
  AUTOPAR_RETURN_IF_ERROR(find(*library, #symbol, found.name).at("cuBLASLt"));
    AUTOPAR_CUBLASLT_CALLS(AUTOPAR_FIND)
#undef AUTOPAR_FIND
    AUTOPAR_RETURN_IF_ERROR(
        find(*library, "cublasLtGetStatusName", found.statusName).at("cuBLASLt"));
    blasCalls = found;
  }
  return &*blasCalls;
}

std::vector<std::string> CudaLibraries::ofCudaVersions(const std::string &name) const {
  std::vector<std::string> sonames{name + ".12"};
  if (version >= kCuda13)
    sonames.insert(sonames.begin(), name + ".13");
  return sonames;
}

void CudaLibraries::openWhatCudnnWants() const {
  std::vector<std::string> sonames = ofCudaVersions("libcublasLt.so");
  for (std::string &soname : ofCudaVersions("libnvrtc.so"))
    sonames.push_back(soname);
  for (const std::string &soname : sonames) {
    auto library = openAny({soname}, soname);
    void *symbol = library ? dlsym(*library, "nvrtcVersion") : nullptr;
    Dl_info found;
    if (!symbol || !dladdr(symbol, &found))
      continue;
    std::error_code error;
    auto folder = std::filesystem::path(found.dli_fname).parent_path();
    for (const auto &entry : std::filesystem::directory_iterator(folder, error))
      if (entry.path().filename().string().starts_with("libnvrtc-builtins.so."))
        dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  }
}

Result<const CudnnCalls *> CudaLibraries::cudnn(const std::string &what,
                                                const std::string &without) {
  std::lock_guard lock(mutex);
  if (!cudnnCalls) {
    openWhatCudnnWants();
    auto library = openAny({"libcudnn.so.9"}, "cuDNN, which computes " + what + ",");
    if (!library)
      return Status(library.status().code(),
                    library.status().message() + "; or compile the model with " + without);
    CudnnCalls found;
#define AUTOPAR_FIND(name, symbol, parameters)                                                     \
  AUTOPAR_RETURN_IF_ERROR(find(*library, #symbol, found.name).at("cuDNN"));
    AUTOPAR_CUDNN_CALLS(AUTOPAR_FIND)
#undef AUTOPAR_FIND
    AUTOPAR_RETURN_IF_ERROR(find(*library, "cudnnGetVersion", found.getVersion).at("cuDNN"));
    AUTOPAR_RETURN_IF_ERROR(find(*library, "cudnnGetErrorString", found.errorText).at("cuDNN"));
    AUTOPAR_RETURN_IF_ERROR(find(*library, "cudnnGetLastErrorString", found.lastError).at("cuDNN"));
    found.version = found.getVersion();
    if (found.version < kOldestCudnn)
      return missing("cuDNN is too old: it is " + threePartText(int(found.version)) +
                     ", needed is " + threePartText(int(kOldestCudnn)) +
                     " or newer; or compile the model with " + without);
    cudnnCalls = found;
  }
  return &*cudnnCalls;
}

Result<const NcclCalls *> CudaLibraries::nccl() {
  std::lock_guard lock(mutex);
  if (!ncclCalls) {
    auto library = openAny({"libnccl.so.2"}, "NCCL, which carries bytes between GPUs,");
    if (!library)
      return library.status();
    NcclCalls found;
#define AUTOPAR_FIND(name, symbol, parameters)                                                     \
  AUTOPAR_RETURN_IF_ERROR(find(*library, #symbol, found.name).at("NCCL"));
    AUTOPAR_NCCL_CALLS(AUTOPAR_FIND)
#undef AUTOPAR_FIND
    AUTOPAR_RETURN_IF_ERROR(find(*library, "ncclGetErrorString", found.errorText).at("NCCL"));
    AUTOPAR_RETURN_IF_ERROR(find(*library, "ncclGetLastError", found.lastError).at("NCCL"));
    if (found.getVersion(&found.version) != NcclResult::Success || found.version < kOldestNccl)
      return missing("NCCL is too old: it is " + threePartText(found.version) + ", needed is " +
                     threePartText(kOldestNccl) + " or newer");
    ncclCalls = found;
  }
  return &*ncclCalls;
}

Status CudaLibraries::check(DriverError error, const std::string &what) const {
  if (error == DriverError::Success)
    return Status::ok();
  const char *name = nullptr, *text = nullptr;
  if (calls.getErrorName(error, &name) != DriverError::Success || !name)
    name = "unknown error";
  if (calls.getErrorString(error, &text) != DriverError::Success || !text)
    text = "no description";
  return Status::internal(what + ": " + name + " " + std::to_string(int(error)) + " (" + text +
                          ")");
}

} // namespace autopar::runtime::cuda
