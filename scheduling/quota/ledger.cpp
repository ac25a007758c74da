#include "scheduling/quota/ledger.hpp"

namespace ebb::scheduling {

Amount free_amount(const Account& account) {
  return account.holding - account.booked - account.used;
}

Restitution decide_restitution(const Account& account, const Amount& hold_at_most,
                               const Amount& coming) {
  const Amount gap = positive(account.holding - hold_at_most);
  const Amount now = min(gap, positive(free_amount(account)));
  return {.now = now, .from_victims = positive(gap - now - account.leaving - coming)};
}

}  // namespace ebb::scheduling
