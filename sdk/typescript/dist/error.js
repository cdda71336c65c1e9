/**
 * The request was refused before anything happened: it is wrong, or not allowed. Nothing
 * moved under its key. A payment that may have been made is never thrown: see Unknown.
 */
export class HomewardError extends Error {
    name = 'HomewardError';
    /** The HTTP status; 0 where no answer came. */
    status;
    /** What the API said; undefined where it was not the API that answered. */
    problem;
    /** What is left to do. */
    retry;
    /** How many requests were made. */
    attempts;
    constructor(message, of, options) {
        super(message, options);
        this.status = of.status;
        this.problem = of.problem;
        this.retry = of.retry;
        this.attempts = of.attempts;
    }
}
