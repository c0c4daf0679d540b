#pragma once

#include <cstdint>
#include <string>

namespace yeoul {

// What a part of a store's life has shown.
struct LifeOutcome {
  int64_t points = 0;  // power cuts or kills
  int64_t wrong_units = 0;
  int64_t lost_units = 0;     // gone though they were durable and not evicted
  int64_t failed_opens = 0;   // the store could not be opened after a cut: everything lost
  int64_t checked_units = 0;  // found and compared
  int64_t durable_units = 0;  // expected to be found
  int64_t violations() const { return wrong_units + lost_units + failed_opens; }
  LifeOutcome& operator+=(const LifeOutcome& other);
};

enum class Disk {
  kKeepsSyncs,
  kForgetsSyncs,  // says that it has synced and has not: shows that the check finds losses
};

// One store in one folder under `scratch`, `cuts` times: opened, filled with units at random, with
// evictions, erasures, failing writes and syncs on the way, until the power goes at a random
// operation; what is then found on the disk is opened and every unit of it checked.
LifeOutcome live_through_power_cuts(const std::string& scratch, uint64_t seed, int cuts,
                                    Disk disk = Disk::kKeepsSyncs);

// Puts units into the store in `folder`, syncing after every few, and writes the number of those
// that are durable to `pipe` after each sync. Until it is killed.
void put_until_killed(const std::string& folder, int pipe, uint64_t seed);
// Runs `program` as such a process, kills it at a random moment, and checks what is found; `kills`
// times in the same folder.
LifeOutcome live_through_kills(const std::string& program, const std::string& scratch,
                               uint64_t seed, int kills);

}  // namespace yeoul
