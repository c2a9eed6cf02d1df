// SPDX-License-Identifier: Apache-2.0
// How files come to their place: complete or not at all.
#pragma once

#include "autopar/Base/Status.h"

#include <memory>
#include <string>
#include <string_view>

namespace autopar {

/// A file on its way: written beside `path`, moved to it by finish(), removed where that was not
/// reached. Where something else than a file stands, such as /dev/null, that is written to and not
/// replaced.
class OutputFile {
public:
  /// CannotCreate where there can be no such file.
  static Result<std::unique_ptr<OutputFile>> create(const std::string &path);
  ~OutputFile();

  /// IoError where the bytes find no place. Small pieces are gathered.
  Status write(std::string_view bytes);
  /// All of it is on the disk, under its name.
  Status finish();

private:
  OutputFile(std::string path, std::string temporary, int descriptor);
  Status writeNow(std::string_view bytes);

  std::string path, temporary; ///< the same for what is no file
  int descriptor;
  std::string gathered;
};

/// All of the bytes to an open file. False, and errno, where they find no place.
bool writeAll(int descriptor, std::string_view bytes);

/// Waits until the names in `folder` are on disk; empty: the working folder.
Status syncFolder(const std::string &folder);

/// The bytes as a file.
Status writeWholeFile(const std::string &path, std::string_view bytes);

/// Whether a file can stand at `path`: said before what goes into it is computed.
Status checkCanCreate(const std::string &path);

/// From here on a file that would grow beyond the limit of the process (`ulimit -f`) is an error of
/// the write (EFBIG); else the signal SIGXFSZ ends the process, and what was written stays. For the
/// first line of main().
void refuseOversizedFiles();

/// An error where something that was printed did not get out, such as to a file on a full disk.
Status flushStandardOutput();

} // namespace autopar
