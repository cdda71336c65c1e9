import type { components, operations } from './api.js';

type Schemas = components['schemas'];
/** A request without the members that HTTP libraries add and the API ignores. */
type Sent<T> = Omit<T, 'client_ts' | 'request_id' | 'sent_at' | 'trace_id'>;
/** Members with a default need not be sent. */
type Optional<T, K extends keyof T> = Omit<T, K> & Partial<Pick<T, K>>;

export type Charge = Schemas['Charge'];
export type Transfer = Schemas['Transfer'];
export type Refund = Schemas['Refund'];
/** Objects as they are now: later refunds, disputes and failures included. */
export type ChargeNow = Schemas['ChargeNow'];
export type TransferNow = Schemas['TransferNow'];
export type RefundNow = Schemas['RefundNow'];
/** Pages of lists. has_more is about the direction that was asked for. */
export type ChargeList = Schemas['ChargeList'];
export type RefundList = Schemas['RefundList'];
type Query<T extends keyof operations> = NonNullable<operations[T]['parameters']['query']>;
/** Which charges, and which page: created in Unix seconds; starting_after the last id of the page before, or ending_before the first one of the page after. */
export type ListChargesParams = Partial<Omit<Query<'listCharges'>, 'expand[]' | 'payment_intent'>>;
export type ListRefundsParams = Partial<Omit<Query<'listRefunds'>, 'payment_intent'>>;
export type KeyStatus = Schemas['KeyStatus'];
/** What became of a key that was given up. */
export type Cancellation = Schemas['Cancellation'];
export type Event = Schemas['Event'];
export type EventObject = Schemas['EventObject'];
export type ChargeParams = Optional<Sent<Schemas['ChargeRequest']>, 'off_session' | 'capture_method'>;
export type TransferParams = Sent<Schemas['TransferRequest']>;
export type RefundParams = Sent<Schemas['RefundRequest']>;
export type CaptureParams = Sent<Schemas['CaptureRequest']>;
