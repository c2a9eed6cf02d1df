// SPDX-License-Identifier: Apache-2.0
// Folders are made, files are not touched before they are written.
#include "Destinations.h"

#include <filesystem>
#include <system_error>
#include <unistd.h>

namespace autopar::tools {

namespace fs = std::filesystem;

static Status cannotCreate(const std::string &what, const std::string &why) {
  return {StatusCode::CannotCreate, what + ": " + why};
}

static Status prepareFolder(const std::string &what, const fs::path &folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return cannotCreate(what, "cannot make the folder " + folder.string() + ": " + error.message());
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return cannotCreate(what, "no file can be made in the folder " + folder.string());
  return Status::ok();
}

static Status prepareFile(const std::string &what, const fs::path &file) {
  std::error_code error;
  if (fs::is_directory(file, error))
    return cannotCreate(what, file.string() + " is a folder, expected the name of a file");
  fs::path folder = file.parent_path();
  return folder.empty() ? Status::ok() : prepareFolder(what, folder);
}

static Status prepareExport(const std::string &what, const std::string &file) {
  if (file.empty())
    return Status::ok();
  AUTOPAR_RETURN_IF_ERROR(prepareFile(what, file));
  std::error_code error;
  if (fs::exists(file, error) && !fs::is_regular_file(file, error))
    return cannotCreate(what, file + " is no file; name another one");
  return Status::ok();
}

Status prepareDestinations(const RunOptions &options) {
  if (!options.checkpointFolder.empty())
    AUTOPAR_RETURN_IF_ERROR(prepareFolder("--checkpoint-dir", options.checkpointFolder));
  if (!options.outputFolder.empty())
    AUTOPAR_RETURN_IF_ERROR(prepareFolder("--output-dir", options.outputFolder));
  AUTOPAR_RETURN_IF_ERROR(prepareExport("--export", options.exportFile));
  AUTOPAR_RETURN_IF_ERROR(prepareExport("--export-ema", options.exportAverages));
  AUTOPAR_RETURN_IF_ERROR(prepareExport("--export-best", options.exportBest));
  return options.trace.empty() ? Status::ok() : prepareFile("--trace", options.trace);
}

} // namespace autopar::tools
