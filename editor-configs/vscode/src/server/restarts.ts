// How often a server that dies is started again.

const MOST = 4;
const WITHIN_MS = 180_000;

export class Restarts {
  private times: number[] = [];

  /** Whether a server that ended now, in milliseconds, is to be started again: up to four times in three minutes. */
  another(now: number): boolean {
    this.times = [...this.times.filter((time) => now - time < WITHIN_MS), now];
    return this.times.length <= MOST;
  }
}
