// Made from internal/httpapi/openapi.json by npm run generate. Do not edit.

export interface paths {
    "/errors": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Every error, for people */
        get: operations["listErrors"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/errors/{error}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What an error means, for people: the type of a problem is this address */
        get: operations["explainError"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/livez": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Is the process up? */
        get: operations["livez"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Should this node get traffic? */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/charges": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List charges
         * @description Those for which money moved, the latest first, as the books of all regions have them: GET /v1/charges/{id} shows the refunds, and what you sent, for as long as its claim is kept. Answered 503 while the books of a region cannot be reached.
         */
        get: operations["listCharges"];
        put?: never;
        /**
         * Charge a payment method
         * @description Moves money at most once per Idempotency-Key, whatever is retried and wherever. For 24 h after first use, or after the final answer where that came later, every retry of the same request reads the same status, Content-Type, Location and body. A charge that waits for its payer or for a bank is answered 202: that answer, too, is the same to the byte for as long as it waits.
         */
        post: operations["createCharge"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/charges/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a charge */
        get: operations["getCharge"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/charges/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel a charge
         * @description Ends a charge in status requires_capture, or one that waits for its payer or a bank if the provider can still cancel it. The charge then answers card_declined with the decline code canceled, and the event is charge.canceled. If the money has moved, the cancellation is refused with already_captured: refund the charge.
         */
        post: operations["cancelCharge"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/charges/{id}/capture": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Capture a charge
         * @description Takes the money that a charge holds, once, and books it before the answer. A capture of the same amount under another key reads the same charge; one of another amount is refused with already_captured, and one of a canceled charge with charge_not_capturable. If the provider reports the result later, the answer until then is 202 with the charge in status processing, and another capture or cancellation is refused with order_in_progress. The charge is part of the request.
         */
        post: operations["captureCharge"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/idempotency-keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Mint stamped keys
         * @description The keys' home is the region that answers or, while that takes no new keys, the nearest region that does. Nothing is stored.
         */
        post: operations["mintKeys"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/idempotency-keys/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the state of a key */
        get: operations["inspectKey"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/idempotency-keys/{key}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Give up a key
         * @description The honest answer to "I gave up waiting". One row decides whether the payment or the cancellation came first, in every region. A key that was never used refuses whatever arrives under it later. What is in flight is called off where the provider can, and otherwise refunded once, as soon as it is known to have moved money. A charge that was made is refunded once, all of it or what is left. Idempotent by itself: repeat it until the answer is 200. It needs no Idempotency-Key.
         */
        post: operations["cancelKey"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This document */
        get: operations["getOpenAPI"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/payment_intents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List payment intents
         * @description As charges are listed, each as its payment intent.
         */
        get: operations["listPaymentIntents"];
        put?: never;
        /**
         * Charge a payment method, as Stripe's clients do today
         * @description With Stripe-Version only; 404 without. The same request as a charge with the same body, also under one key.
         */
        post: operations["createPaymentIntent"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/payment_intents/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read a charge as a payment intent
         * @description With Stripe-Version only; 404 without.
         */
        get: operations["getPaymentIntent"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/payment_intents/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel a payment intent, as Stripe's clients do
         * @description With Stripe-Version only; 404 without. The same request as that of its charge, also under one key.
         */
        post: operations["cancelPaymentIntent"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/payment_intents/{id}/capture": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Capture a payment intent, as Stripe's clients do
         * @description With Stripe-Version only; 404 without. The same request as that of its charge, also under one key.
         */
        post: operations["capturePaymentIntent"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/refunds": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the refunds of a charge
         * @description The latest first, those in flight, those that failed and those that a person made at the provider included. What was sent with one is in GET /v1/refunds/{id}.
         */
        get: operations["listRefunds"];
        put?: never;
        /**
         * Give back a charge, wholly or in part
         * @description Moves money at most once per Idempotency-Key, whatever is retried and wherever. For 24 h after first use, or after the final answer where that came later, every retry of the same request reads the same status, Content-Type, Location and body. A refund has the home of its charge, unless its key names another region. If the refunds of one charge exceed it together, the provider refuses the last one: 400.
         */
        post: operations["createRefund"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/refunds/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read a refund
         * @description This includes refunds that the merchant did not request: Homeward gives back money that arrives for a refused or expired charge.
         */
        get: operations["getRefund"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/test-clock": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Let time pass for your test keys
         * @description For test keys alone. What they have made becomes older by so many seconds: replays, tombstones, pending outcomes, disputes and whatever else waits for a time. Each request moves it further, so do not repeat one that was answered. Objects made afterwards are made now.
         */
        post: operations["advanceTestClock"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/transfers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Pay out to an account
         * @description Moves money at most once per Idempotency-Key, whatever is retried and wherever. For 24 h after first use, or after the final answer where that came later, every retry of the same request reads the same status, Content-Type, Location and body.
         */
        post: operations["createTransfer"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/transfers/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read a transfer */
        get: operations["getTransfer"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks/{provider}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * A provider's webhook
         * @description For payment providers, which sign each notice. The body, of at most 256 KiB, is stored unchanged, once for each of the provider's event ids, and nothing else is done before the answer. After any status but 200 the provider should send the notice again.
         */
        post: operations["receiveNotice"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface webhooks {
    charge: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The outcome of a charge
         * @description Types: charge.succeeded, charge.declined, charge.failed, charge.expired, charge.canceled, charge.requires_action, charge.processing, charge.requires_capture. Signed as in Standard Webhooks. New types may be added.
         */
        post: operations["chargeEvent"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    dispute: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * A step of a dispute
         * @description Types: charge.dispute.created, charge.dispute.funds_withdrawn, charge.dispute.funds_reinstated, charge.dispute.closed. Closed is won or lost, as the status says. Signed as in Standard Webhooks. New types may be added.
         */
        post: operations["disputeEvent"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    refund: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The outcome of a refund
         * @description Types: refund.succeeded, refund.declined, refund.failed, refund.canceled, refund.processing, refund.created (made at the provider). Signed as in Standard Webhooks. New types may be added.
         */
        post: operations["refundEvent"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    transfer: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The outcome of a transfer
         * @description Types: transfer.succeeded, transfer.declined, transfer.failed, transfer.expired, transfer.canceled, transfer.processing, transfer.reversed. Signed as in Standard Webhooks. New types may be added.
         */
        post: operations["transferEvent"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface components {
    schemas: {
        Cancellation: {
            /** @description The id of the key's charge, if it is a charge's. */
            charge?: string;
            /** @description The key that was given up, in its normal form. */
            idempotency_key: string;
            /** @constant */
            object: "cancellation";
            /** @description unused: the key was never used, and refuses whatever arrives. not_made: no money moved. refunded: money moved, and the provider has the refund of all that was left. refund_pending: that is not certain yet. unknown: it is not known yet whether money moved. */
            outcome: "unused" | "not_made" | "refunded" | "refund_pending" | "unknown" | (string & {});
            /** @description The id of the refund that the cancellation made, once there is one. */
            refund?: string;
        };
        /** @description An empty object. */
        CancelRequest: {
            client_ts?: components["schemas"]["Unstable"];
            request_id?: components["schemas"]["Unstable"];
            sent_at?: components["schemas"]["Unstable"];
            trace_id?: components["schemas"]["Unstable"];
        };
        CaptureRequest: {
            /**
             * Format: int64
             * @description How much of the charge to take, in minor units; the rest is released. If absent, all of it.
             */
            amount?: number;
            /**
             * @description Set for Stripe's clients: the amount is in Stripe's units. Refused for currencies that have other units at Stripe than in ISO 4217 (isk, ugx, mga).
             * @constant
             */
            amount_units?: "stripe";
            client_ts?: components["schemas"]["Unstable"];
            request_id?: components["schemas"]["Unstable"];
            sent_at?: components["schemas"]["Unstable"];
            trace_id?: components["schemas"]["Unstable"];
        };
        Charge: {
            /** @description The connected account that makes the charge, as Stripe-Account does at Stripe. */
            account?: string;
            /** Format: int64 */
            amount: number;
            /**
             * Format: int64
             * @description While the status is requires_capture: how much is held.
             */
            amount_capturable?: number;
            /**
             * Format: int64
             * @description Of a charge with capture_method manual that has succeeded: how much has moved.
             */
            amount_captured?: number;
            /**
             * Format: int64
             * @description The platform's part. Needs account or transfer_data.
             */
            application_fee_amount?: number;
            /**
             * @description manual: the provider only holds the money, and the charge is answered 202 with the status requires_capture, until it is captured or canceled, or the hold lapses (at Stripe after some 7 days). If the provider cannot hold money, the charge is refused.
             * @default automatic
             * @enum {string}
             */
            capture_method: "automatic" | "manual";
            /** @description While the status is requires_action: what the merchant's page needs for the payer to continue. */
            client_secret?: string;
            /**
             * Format: int64
             * @description Unix time, in seconds.
             */
            created: number;
            currency: string;
            /** @description The provider's id of the payer who saved payment_method. */
            customer?: string;
            /** @description Free text. Card numbers are refused, or masked if the account's setting says so. */
            description?: string;
            /**
             * Format: date-time
             * @description Not payable from this time on.
             */
            expires_at?: string;
            id: string;
            /** @description Whether money moves: false for what a test key made. */
            livemode: boolean;
            /** @description Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier. */
            metadata?: {
                [key: string]: string;
            };
            /** @description While the status is requires_action: what the payer has to do, as the provider describes it. */
            next_action?: Record<string, never>;
            /** @constant */
            object: "charge";
            /**
             * @description Whether the payer is away. If not, the charge may wait for them to authenticate, and is answered 202.
             * @default true
             */
            off_session: boolean;
            /** @description The connected account that is the merchant of record. */
            on_behalf_of?: string;
            order_id?: string;
            /** @description Absent from a canceled charge that only its provider still has. */
            payment_method?: string;
            provider: {
                name: string;
                reference: string;
            };
            receipt_number: string;
            /**
             * Format: uri
             * @description The address to which the payer returns. Needs off_session to be false.
             */
            return_url?: string;
            /**
             * @description Keeps the payment method for later.
             * @enum {string}
             */
            setup_future_usage?: "on_session" | "off_session";
            statement_descriptor_suffix?: string;
            /**
             * @description If the charge has not succeeded, what it waits for: its payer, a bank, or its capture. Only the answer to a cancellation has canceled.
             * @enum {string}
             */
            status: "succeeded" | "requires_action" | "processing" | "requires_capture" | "canceled";
            /** @description The connected account that gets the charge, or amount of it. */
            transfer_data?: {
                /** Format: int64 */
                amount?: number;
                destination: string;
            };
        };
        ChargeList: {
            data: components["schemas"]["ListedCharge"][];
            /** @description There are more in the direction that was asked for. */
            has_more: boolean;
            /** @constant */
            object: "list";
            url: string;
        };
        /** @description A charge as it is now. Once the claim is deleted, some two days after its first use, the answer is made from the books: it has order_id and metadata of what you sent, and no receipt_number. */
        ChargeNow: {
            /** @description The connected account that makes the charge, as Stripe-Account does at Stripe. */
            account?: string;
            /** Format: int64 */
            amount: number;
            /**
             * Format: int64
             * @description While the status is requires_capture: how much is held.
             */
            amount_capturable?: number;
            /**
             * Format: int64
             * @description How much has moved; 0 if the charge has failed since. Absent while it waits.
             */
            amount_captured?: number;
            /**
             * Format: int64
             * @description The sum of booked refunds that have not failed. Absent while the charge waits.
             */
            amount_refunded?: number;
            /**
             * Format: int64
             * @description The platform's part. Needs account or transfer_data.
             */
            application_fee_amount?: number;
            /**
             * Format: int64
             * @description The store's time of this read: what happened by then is in it. Unix time, in seconds.
             */
            as_of: number;
            /**
             * @description manual: the provider only holds the money, and the charge is answered 202 with the status requires_capture, until it is captured or canceled, or the hold lapses (at Stripe after some 7 days). If the provider cannot hold money, the charge is refused.
             * @default automatic
             * @enum {string}
             */
            capture_method: "automatic" | "manual";
            /** @description While the status is requires_action: what the merchant's page needs for the payer to continue. */
            client_secret?: string;
            /** @description Absent if there are none. */
            compensations?: components["schemas"]["Compensation"][];
            /**
             * Format: int64
             * @description Unix time, in seconds.
             */
            created: number;
            currency: string;
            /** @description The provider's id of the payer who saved payment_method. */
            customer?: string;
            /** @description Free text. Card numbers are refused, or masked if the account's setting says so. */
            description?: string;
            /** @description The latest first. Absent if there are none. */
            disputes?: components["schemas"]["DisputeOfCharge"][];
            /**
             * Format: date-time
             * @description Not payable from this time on.
             */
            expires_at?: string;
            id: string;
            /** @description Whether money moves: false for what a test key made. */
            livemode: boolean;
            /** @description Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier. */
            metadata?: {
                [key: string]: string;
            };
            /** @description While the status is requires_action: what the payer has to do, as the provider describes it. */
            next_action?: Record<string, never>;
            /** @constant */
            object: "charge";
            /**
             * @description Whether the payer is away. If not, the charge may wait for them to authenticate, and is answered 202.
             * @default true
             */
            off_session: boolean;
            /** @description The connected account that is the merchant of record. */
            on_behalf_of?: string;
            order_id?: string;
            /** @description Absent from a canceled charge that only its provider still has. */
            payment_method?: string;
            provider?: {
                name: string;
                reference: string;
            };
            receipt_number?: string;
            /** @description Those in flight, and then the booked ones, the latest first and at most 1000. Absent if there are none. */
            refunds?: components["schemas"]["RefundOfCharge"][];
            /**
             * Format: uri
             * @description The address to which the payer returns. Needs off_session to be false.
             */
            return_url?: string;
            /**
             * @description Keeps the payment method for later.
             * @enum {string}
             */
            setup_future_usage?: "on_session" | "off_session";
            statement_descriptor_suffix?: string;
            /**
             * @description failed: the provider took the charge back after it had succeeded, or moved its money after it had been refused or given up (then compensations has what became of that).
             * @enum {string}
             */
            status: "succeeded" | "requires_action" | "processing" | "requires_capture" | "failed";
            /** @description The connected account that gets the charge, or amount of it. */
            transfer_data?: {
                /** Format: int64 */
                amount?: number;
                destination: string;
            };
        };
        ChargeRequest: {
            /** @description The connected account that makes the charge, as Stripe-Account does at Stripe. */
            account?: string;
            /**
             * Format: int64
             * @description Minor units of the currency.
             */
            amount: number;
            /**
             * Format: int64
             * @description The platform's part. Needs account or transfer_data.
             */
            application_fee_amount?: number;
            /**
             * @description manual: the provider only holds the money, and the charge is answered 202 with the status requires_capture, until it is captured or canceled, or the hold lapses (at Stripe after some 7 days). If the provider cannot hold money, the charge is refused.
             * @default automatic
             * @enum {string}
             */
            capture_method: "automatic" | "manual";
            client_ts?: components["schemas"]["Unstable"];
            /** @description ISO 4217, lower case. */
            currency: string;
            /** @description The provider's id of the payer who saved payment_method. */
            customer?: string;
            /** @description Free text. Card numbers are refused, or masked if the account's setting says so. */
            description?: string;
            /**
             * Format: date-time
             * @description Not payable from this time on.
             */
            expires_at?: string;
            /** @description Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier. */
            metadata?: {
                [key: string]: string;
            };
            /**
             * @description Whether the payer is away. If not, the charge may wait for them to authenticate, and is answered 202.
             * @default true
             */
            off_session: boolean;
            /** @description The connected account that is the merchant of record. */
            on_behalf_of?: string;
            order_id?: string;
            /** @description A token, never a card number. */
            payment_method: string;
            /** @description The payment provider, of the deployment's, that makes the payment. It is part of the request: a retry names the same. If it is absent, the account's routes or the default decide. The answer names the provider; a refund goes to the same one. */
            provider?: string;
            request_id?: components["schemas"]["Unstable"];
            /**
             * Format: uri
             * @description The address to which the payer returns. Needs off_session to be false.
             */
            return_url?: string;
            sent_at?: components["schemas"]["Unstable"];
            /**
             * @description Keeps the payment method for later.
             * @enum {string}
             */
            setup_future_usage?: "on_session" | "off_session";
            statement_descriptor_suffix?: string;
            trace_id?: components["schemas"]["Unstable"];
            /** @description The connected account that gets the charge, or amount of it. */
            transfer_data?: {
                /** Format: int64 */
                amount?: number;
                destination: string;
            };
        };
        /** @description Money that the provider moved for a charge although nobody asked for it, or a second time. Homeward refunds it once. */
        Compensation: {
            /** Format: int64 */
            amount: number;
            /**
             * Format: int64
             * @description When it was booked. Unix time, in seconds.
             */
            created: number;
            currency: string;
            /** @description Whether money moves: false for what a test key made. */
            livemode: boolean;
            /** @constant */
            object: "compensation";
            provider: {
                name: string;
                reference: string;
            };
            /**
             * @description failed: the provider took the movement back.
             * @enum {string}
             */
            status: "pending" | "refunded" | "failed";
        };
        DisputeOfCharge: {
            /** Format: int64 */
            amount: number;
            /**
             * Format: int64
             * @description When it was booked. Unix time, in seconds.
             */
            created: number;
            currency: string;
            /** @description That of the events of this dispute. */
            id: string;
            /** @description Whether money moves: false for what a test key made. */
            livemode: boolean;
            /** @constant */
            object: "dispute";
            provider: {
                name: string;
                reference: string;
            };
            /** @enum {string} */
            status: "open" | "won" | "lost";
        };
        /** @description An event, delivered at least once: a repetition has the same id and the same bytes. New members may be added. */
        Event: {
            /**
             * Format: int64
             * @description Unix time, in seconds.
             */
            created: number;
            data: components["schemas"]["EventObject"];
            /** @description The same for every repetition, and the header webhook-id. Store it, and act once. */
            id: string;
            /** @description Whether money moves: false for what a test key made. */
            livemode: boolean;
            /** @description The object's kind and its outcome, or what the provider did unasked: refund.created is a refund made at the provider. New types may be added: answer 2xx to an unknown one. */
            type: "charge.succeeded" | "charge.declined" | "charge.failed" | "charge.expired" | "charge.canceled" | "charge.requires_action" | "charge.processing" | "charge.requires_capture" | "charge.dispute.created" | "charge.dispute.funds_withdrawn" | "charge.dispute.funds_reinstated" | "charge.dispute.closed" | "transfer.succeeded" | "transfer.declined" | "transfer.failed" | "transfer.expired" | "transfer.canceled" | "transfer.processing" | "transfer.reversed" | "refund.succeeded" | "refund.declined" | "refund.failed" | "refund.canceled" | "refund.processing" | "refund.created" | (string & {});
        };
        /** @description The object as it was when the event was made; the API's own answer is newer. A charge, a transfer or a refund: whole if money moved, else with the members that Homeward has. Of charge.dispute.*: a dispute. A refund made at the provider, and a dispute, have ids that cannot be read; the charge lists both. */
        EventObject: {
            /**
             * Format: int64
             * @description Minor units. Of a dispute: what is disputed, withdrawn or reinstated.
             */
            amount?: number;
            /**
             * Format: int64
             * @description While the status is requires_capture: how much is held.
             */
            amount_capturable?: number;
            /**
             * Format: int64
             * @description Of a charge with capture_method manual that has succeeded: how much has moved.
             */
            amount_captured?: number;
            capture_method?: string;
            /** @description Of a refund or a dispute: its charge. */
            charge?: string;
            /** @description Why no money moved, or why it went back. New codes may be added. */
            code?: string;
            /**
             * Format: int64
             * @description Unix time, in seconds.
             */
            created?: number;
            currency?: string;
            description?: string;
            destination?: string;
            /** @description Of a dispute: until when it can be answered, if the provider says so. */
            evidence_details?: {
                /**
                 * Format: int64
                 * @description Unix time, in seconds.
                 */
                due_by: number;
            };
            /** Format: date-time */
            expires_at?: string;
            id: string;
            /** @description Whether money moves: false for what a test key made. */
            livemode?: boolean;
            /** @description Of a refund without its own, or a dispute: that of its charge. */
            metadata?: {
                [key: string]: string;
            };
            /** @enum {string} */
            object: "charge" | "transfer" | "refund" | "dispute";
            /** @description Of a refund or a dispute: that of its charge. */
            order_id?: string;
            payment_method?: string;
            provider?: {
                name: string;
                reference: string;
            };
            /** @description Of a refund: as sent with it, or made_at_provider. Of a dispute: the provider's code. New reasons may be added. */
            reason?: string;
            receipt_number?: string;
            /** @description Of transfer.reversed: how much of the transfer came back. */
            reversal?: {
                /** Format: int64 */
                amount: number;
                id: string;
                /** @constant */
                object: "transfer_reversal";
            };
            /** @description Of an outcome: the second half of the event's type. failed may follow succeeded: the money went back since. Of a dispute: needs_response, won, lost, or the provider's own. New statuses may be added. */
            status: "canceled" | "declined" | "expired" | "failed" | "lost" | "needs_response" | "processing" | "requires_action" | "requires_capture" | "succeeded" | "won" | (string & {});
        };
        KeyStatus: {
            /** Format: int32 */
            attempts: number;
            /**
             * Format: date-time
             * @description Until then a retry replays the answer; from then on it gets 410. As long as the state is IN_FLIGHT, it moves on.
             */
            expires_at: string;
            /** Format: date-time */
            first_used_at: string;
            /**
             * Format: date-time
             * @description From then on the key is new: a request under it is executed. Never before the state is final or FAILED_RETRY.
             */
            free_at: string;
            home_region: string;
            key: string;
            object: string;
            /**
             * @description IN_FLIGHT: no final answer yet; send the same request again to learn it. COMPLETED: done, a retry replays the answer. FAILED_TERMINAL: refused for good, a retry replays the refusal. FAILED_RETRY: refused for now, no money moved; the same request under the same key tries again. EXPIRED: a retry gets 410 until free_at.
             * @enum {string}
             */
            state: "IN_FLIGHT" | "COMPLETED" | "FAILED_TERMINAL" | "FAILED_RETRY" | "EXPIRED";
            timeline: {
                /** Format: date-time */
                at: string;
                detail?: string;
                /** @description What happened. New kinds may be added. */
                event: string;
                /** Format: int64 */
                fence: number;
                region: string;
            }[];
        };
        /** @description A charge in a list, as the books have it. GET /v1/charges/{id} shows its refunds, and what else you sent with it, for as long as its claim is kept. */
        ListedCharge: {
            /**
             * Format: int64
             * @description What moved.
             */
            amount: number;
            /**
             * Format: int64
             * @description How much has moved; 0 if the charge has failed since. Absent while it waits.
             */
            amount_captured: number;
            /**
             * Format: int64
             * @description The sum of booked refunds that have not failed. Absent while the charge waits.
             */
            amount_refunded: number;
            /** @description Absent if there are none. */
            compensations?: components["schemas"]["Compensation"][];
            /**
             * Format: int64
             * @description Unix time, in seconds.
             */
            created: number;
            currency: string;
            /** @description The latest first. Absent if there are none. */
            disputes?: components["schemas"]["DisputeOfCharge"][];
            id: string;
            /** @description Whether money moves: false for what a test key made. */
            livemode?: boolean;
            /** @description Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier. */
            metadata?: {
                [key: string]: string;
            };
            /** @constant */
            object: "charge";
            order_id?: string;
            provider: {
                name: string;
                reference: string;
            };
            /**
             * @description failed: the provider took the charge back after it had succeeded.
             * @enum {string}
             */
            status: "succeeded" | "failed";
        };
        NotReady: {
            detail: string;
            /** @constant */
            error: "not_ready";
            /** @constant */
            retry: "same_key";
            /**
             * Format: int32
             * @constant
             */
            status: 503;
            title: string;
            /**
             * Format: uri-reference
             * @description The page that explains the error to people: /errors/NAME of the node, or the deployment's own. A stored answer keeps its first one. Programs use error instead.
             */
            type: string;
        };
        Problem: {
            /** @description Why a payment was declined, or a refund refused. New codes may be added. */
            code?: string;
            detail: string;
            /** @description The error's name, for programs. New names may be added: treat an unknown one by its retry. */
            error: "idempotency_key_missing" | "idempotency_key_invalid" | "invalid_request" | "unauthorized" | "forbidden" | "card_declined" | "not_found" | "method_not_allowed" | "idempotency_key_in_use" | "idempotency_key_canceled" | "idempotency_key_expired" | "body_too_large" | "unsupported_media_type" | "idempotency_key_fingerprint_mismatch" | "rate_limited" | "store_unavailable" | "home_unavailable" | "idempotency_key_withheld" | "outcome_unknown" | "internal" | (string & {});
            member?: string;
            /** Format: date-time */
            original_request_at?: string;
            /**
             * @description same_key: sending the same request again is safe and useful. new_key: this key is spent and its answer will not change; a new attempt needs a new key. After idempotency_key_expired first find out what became of the original, which may have moved money. never: correct the request.
             * @enum {string}
             */
            retry: "same_key" | "new_key" | "never";
            /**
             * Format: int64
             * @description When a retry becomes useful, in milliseconds.
             */
            retry_after_ms?: number;
            /** Format: int32 */
            status: number;
            title: string;
            /**
             * Format: uri-reference
             * @description The page that explains the error to people: /errors/NAME of the node, or the deployment's own. A stored answer keeps its first one. Programs use error instead.
             */
            type: string;
        };
        Refund: {
            /** Format: int64 */
            amount: number;
            charge: string;
            /**
             * Format: int64
             * @description Unix time, in seconds.
             */
            created: number;
            currency: string;
            id: string;
            /** @description Whether money moves: false for what a test key made. */
            livemode: boolean;
            metadata?: {
                [key: string]: string;
            };
            /** @constant */
            object: "refund";
            provider: {
                name: string;
                reference: string;
            };
            reason?: string;
            receipt_number: string;
            /**
             * @description processing: the provider has accepted the refund and has not paid it out yet.
             * @enum {string}
             */
            status: "succeeded" | "processing";
        };
        RefundList: {
            data: components["schemas"]["RefundOfCharge"][];
            /** @description There are more in the direction that was asked for. */
            has_more: boolean;
            /** @constant */
            object: "list";
            url: string;
        };
        /** @description A refund as it is now. Once the claim is deleted, some two days after its first use, the answer is made from the books: what you sent, and receipt_number, are absent then. */
        RefundNow: {
            /** Format: int64 */
            amount: number;
            /**
             * Format: int64
             * @description The store's time of this read: what happened by then is in it. Unix time, in seconds.
             */
            as_of: number;
            charge?: string;
            /**
             * Format: int64
             * @description Unix time, in seconds. Once the claim is deleted: when it was booked.
             */
            created: number;
            currency: string;
            id: string;
            /** @description Whether money moves: false for what a test key made. */
            livemode: boolean;
            metadata?: {
                [key: string]: string;
            };
            /** @constant */
            object: "refund";
            provider?: {
                name: string;
                reference: string;
            };
            reason?: string;
            receipt_number?: string;
            /**
             * @description failed: the provider took it back after it had succeeded, and the money is owed again.
             * @enum {string}
             */
            status: "succeeded" | "processing" | "failed";
        };
        /** @description A refund in its charge or in a list, in flight or as the books have it. GET /v1/refunds/{id} shows what you sent with it, for as long as its claim is kept. */
        RefundOfCharge: {
            /** Format: int64 */
            amount: number;
            charge: string;
            /**
             * Format: int64
             * @description When it was booked; while it is in flight, when it was begun. Unix time, in seconds.
             */
            created: number;
            currency: string;
            id: string;
            /** @description Whether money moves: false for what a test key made. */
            livemode: boolean;
            /** @constant */
            object: "refund";
            provider?: {
                name: string;
                reference: string;
            };
            /**
             * @description A person made it at the provider. It has no object of its own.
             * @constant
             */
            reason?: "made_at_provider";
            /**
             * @description processing: it was begun, and its answer is still open; it has no provider yet. failed: the provider took it back after it had succeeded.
             * @enum {string}
             */
            status: "succeeded" | "processing" | "failed";
        };
        RefundRequest: {
            /**
             * Format: int64
             * @description Minor units of the charge's currency, at most the charge's amount. If absent, the whole charge.
             */
            amount?: number;
            /**
             * @description Set for Stripe's clients: the amount is in Stripe's units. Refused for currencies that have other units at Stripe than in ISO 4217 (isk, ugx, mga).
             * @constant
             */
            amount_units?: "stripe";
            /** @description The id of the charge. */
            charge: string;
            client_ts?: components["schemas"]["Unstable"];
            /** @description Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier. */
            metadata?: {
                [key: string]: string;
            };
            /** @description The merchant's own; the payer does not see it. Card numbers are refused, or masked if the account's setting says so. */
            reason?: string;
            request_id?: components["schemas"]["Unstable"];
            sent_at?: components["schemas"]["Unstable"];
            trace_id?: components["schemas"]["Unstable"];
        };
        StripeCancelForm: {
            expand?: "payment_intent"[];
        };
        StripeCaptureForm: {
            /** Format: int64 */
            amount?: number;
            expand?: "payment_intent"[];
        };
        /** @description Stripe's charge. Members that are always null or empty are not listed; order_id, expires_at, provider and as_of are beside Stripe's own. */
        StripeCharge: {
            /**
             * Format: int64
             * @description In Stripe's units.
             */
            amount: number;
            /** Format: int64 */
            amount_captured?: number;
            /**
             * Format: int64
             * @description The refunds that have not failed, and the part that was never captured. In the answer to a POST: that part alone.
             */
            amount_refunded?: number;
            /**
             * Format: int64
             * @description Not Stripe's. In a read: its time.
             */
            as_of?: number;
            captured: boolean;
            /** Format: int64 */
            created: number;
            currency: string;
            description?: string | null;
            /** @description In a read: the payer has disputed it, whatever came of that. */
            disputed?: boolean;
            id: string;
            livemode?: boolean;
            metadata: {
                [key: string]: string;
            };
            /** @constant */
            object: "charge";
            paid: boolean;
            /** @description Its id, or with expand[]=payment_intent the object. */
            payment_intent: string | Record<string, never>;
            payment_method?: string | null;
            receipt_number?: string | null;
            /** @description All of it. */
            refunded?: boolean;
            /** @description With expand[]=refunds: the latest ten. GET /v1/refunds lists all. */
            refunds?: components["schemas"]["StripeList"];
            /** @enum {string} */
            status: "succeeded" | "pending" | "failed";
        };
        /** @description The parameters that are served of Stripe's POST /v1/charges. Any other is refused by name. */
        StripeChargeForm: {
            /**
             * Format: int64
             * @description In Stripe's units. Currencies that have other units at Stripe than in ISO 4217 (isk, mga, ugx) are refused.
             */
            amount: number;
            /** Format: int64 */
            application_fee_amount?: number;
            /**
             * @description false: the money is only held.
             * @enum {string}
             */
            capture?: "true" | "false";
            currency: string;
            customer?: string;
            description?: string;
            expand?: "payment_intent"[];
            /** @description Not Stripe's. RFC 3339. */
            expires_at?: string;
            /** @description metadata[name]=value */
            metadata?: {
                [key: string]: string;
            };
            on_behalf_of?: string;
            /** @description Not Stripe's. */
            order_id?: string;
            /** @description A token pm_…; source is the same. */
            payment_method?: string;
            source?: string;
            statement_descriptor_suffix?: string;
            transfer_data?: {
                /** Format: int64 */
                amount?: number;
                destination: string;
            };
        };
        /** @description An error in Stripe's format, for a request with Stripe-Version. Its status is that of the problem, but 400 for a key of another request (422) and for an expired one (410), and 400 for a refund or transfer that the provider declined (402). */
        StripeError: {
            error: {
                code?: string;
                decline_code?: string;
                doc_url?: string;
                message: string;
                param?: string;
                /** @enum {string} */
                type: "api_error" | "card_error" | "idempotency_error" | "invalid_request_error";
            };
        };
        /** @description Stripe's list of objects. */
        StripeList: {
            data: (components["schemas"]["StripeRefund"] | components["schemas"]["StripeCharge"] | components["schemas"]["StripePaymentIntent"])[];
            has_more: boolean;
            /** @constant */
            object: "list";
            url: string;
        };
        /** @description Stripe's payment intent, the same payment as the charge of the same id behind ch_. Members that are always null or empty are not listed; order_id, expires_at, provider and as_of are beside Stripe's own. */
        StripePaymentIntent: {
            /**
             * Format: int64
             * @description In Stripe's units.
             */
            amount: number;
            /**
             * Format: int64
             * @description What is held, while the status is requires_capture.
             */
            amount_capturable?: number;
            /** Format: int64 */
            amount_received?: number;
            /**
             * Format: int64
             * @description Not Stripe's. In a read: its time.
             */
            as_of?: number;
            capture_method?: string;
            client_secret?: string | null;
            confirmation_method?: string;
            /** Format: int64 */
            created: number;
            currency: string;
            description?: string | null;
            id: string;
            /** @description Its id, or with expand[]=latest_charge the object. */
            latest_charge: string | Record<string, never>;
            livemode?: boolean;
            metadata: {
                [key: string]: string;
            };
            next_action?: Record<string, never> | null;
            /** @constant */
            object: "payment_intent";
            payment_method?: string | null;
            /**
             * @description requires_payment_method: its charge has failed since.
             * @enum {string}
             */
            status: "succeeded" | "requires_action" | "processing" | "requires_capture" | "canceled" | "requires_payment_method";
        };
        StripePaymentIntentCancelForm: {
            /**
             * @description Checked, and not stored.
             * @enum {string}
             */
            cancellation_reason?: "abandoned" | "duplicate" | "fraudulent" | "requested_by_customer";
            expand?: "latest_charge"[];
        };
        StripePaymentIntentCaptureForm: {
            /** Format: int64 */
            amount_to_capture?: number;
            expand?: "latest_charge"[];
        };
        /** @description The parameters that are served of Stripe's POST /v1/payment_intents. Any other is refused by name. */
        StripePaymentIntentForm: {
            /**
             * Format: int64
             * @description In Stripe's units. Currencies that have other units at Stripe than in ISO 4217 (isk, mga, ugx) are refused.
             */
            amount: number;
            /** Format: int64 */
            application_fee_amount?: number;
            automatic_payment_methods?: {
                /** @enum {string} */
                allow_redirects?: "never";
                /** @enum {string} */
                enabled?: "true";
            };
            /** @enum {string} */
            capture_method?: "automatic" | "automatic_async" | "manual";
            /** @enum {string} */
            confirm: "true";
            /** @enum {string} */
            confirmation_method?: "automatic";
            currency: string;
            customer?: string;
            description?: string;
            expand?: "latest_charge"[];
            /** @description Not Stripe's. RFC 3339. */
            expires_at?: string;
            /** @description metadata[name]=value */
            metadata?: {
                [key: string]: string;
            };
            /**
             * @description Whether the payer is away. If not, the payment may wait for them: status is requires_action.
             * @default false
             */
            off_session: boolean;
            on_behalf_of?: string;
            /** @description Not Stripe's. */
            order_id?: string;
            payment_method: string;
            payment_method_types?: "card"[];
            return_url?: string;
            /** @enum {string} */
            setup_future_usage?: "on_session" | "off_session";
            statement_descriptor_suffix?: string;
            transfer_data?: {
                /** Format: int64 */
                amount?: number;
                destination: string;
            };
        };
        /** @description Stripe's refund. Members that are always null or empty are not listed; order_id, expires_at, provider and as_of are beside Stripe's own. */
        StripeRefund: {
            /**
             * Format: int64
             * @description In Stripe's units.
             */
            amount: number;
            /**
             * Format: int64
             * @description Not Stripe's. In a read: its time.
             */
            as_of?: number;
            charge: string;
            /** Format: int64 */
            created: number;
            currency: string;
            id: string;
            metadata: {
                [key: string]: string;
            };
            /** @constant */
            object: "refund";
            payment_intent: string;
            reason?: string | null;
            receipt_number?: string | null;
            /** @enum {string} */
            status: "succeeded" | "pending" | "failed";
        };
        /** @description The parameters that are served of Stripe's POST /v1/refunds. Any other is refused by name. */
        StripeRefundForm: {
            /** Format: int64 */
            amount?: number;
            /** @description Or payment_intent. */
            charge?: string;
            /** @description metadata[name]=value */
            metadata?: {
                [key: string]: string;
            };
            payment_intent?: string;
            /** @enum {string} */
            reason?: "duplicate" | "fraudulent" | "requested_by_customer";
        };
        /** @description Stripe's transfer. Members that are always null or empty are not listed; order_id, expires_at, provider and as_of are beside Stripe's own. */
        StripeTransfer: {
            /**
             * Format: int64
             * @description In Stripe's units.
             */
            amount: number;
            /** Format: int64 */
            amount_reversed?: number;
            /**
             * Format: int64
             * @description Not Stripe's. In a read: its time.
             */
            as_of?: number;
            /** Format: int64 */
            created: number;
            currency: string;
            description?: string | null;
            destination: string;
            id: string;
            livemode?: boolean;
            metadata: {
                [key: string]: string;
            };
            /** @constant */
            object: "transfer";
            /** @description Stripe's transfer reversals. */
            reversals?: {
                data: Record<string, never>[];
                has_more: boolean;
                /** @constant */
                object: "list";
                url: string;
            };
            reversed?: boolean;
        };
        /** @description The parameters that are served of Stripe's POST /v1/transfers. Any other is refused by name. */
        StripeTransferForm: {
            /**
             * Format: int64
             * @description In Stripe's units. Currencies that have other units at Stripe than in ISO 4217 (isk, mga, ugx) are refused.
             */
            amount: number;
            currency: string;
            description?: string;
            destination: string;
            /** @description Not Stripe's. RFC 3339. */
            expires_at?: string;
            /** @description metadata[name]=value */
            metadata?: {
                [key: string]: string;
            };
            /** @description Not Stripe's. */
            order_id?: string;
        };
        Transfer: {
            /** Format: int64 */
            amount: number;
            /**
             * Format: int64
             * @description Unix time, in seconds.
             */
            created: number;
            currency: string;
            /** @description Free text. Card numbers are refused, or masked if the account's setting says so. */
            description?: string;
            destination: string;
            /**
             * Format: date-time
             * @description Not payable from this time on.
             */
            expires_at?: string;
            id: string;
            /** @description Whether money moves: false for what a test key made. */
            livemode: boolean;
            /** @description Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier. */
            metadata?: {
                [key: string]: string;
            };
            /** @constant */
            object: "transfer";
            order_id?: string;
            provider: {
                name: string;
                reference: string;
            };
            receipt_number: string;
            /** @constant */
            status: "succeeded";
        };
        /** @description A transfer as it is now. Once the claim is deleted, some two days after its first use, the answer is made from the books: it has order_id and metadata of what you sent, and no receipt_number. */
        TransferNow: {
            /** Format: int64 */
            amount: number;
            /**
             * Format: int64
             * @description How much came back.
             */
            amount_reversed?: number;
            /**
             * Format: int64
             * @description The store's time of this read: what happened by then is in it. Unix time, in seconds.
             */
            as_of: number;
            /**
             * Format: int64
             * @description Unix time, in seconds. Once the claim is deleted: when it was booked.
             */
            created: number;
            currency: string;
            /** @description Free text. Card numbers are refused, or masked if the account's setting says so. */
            description?: string;
            destination?: string;
            /**
             * Format: date-time
             * @description Not payable from this time on.
             */
            expires_at?: string;
            id: string;
            /** @description Whether money moves: false for what a test key made. */
            livemode: boolean;
            /** @description Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier. */
            metadata?: {
                [key: string]: string;
            };
            /** @constant */
            object: "transfer";
            order_id?: string;
            provider?: {
                name: string;
                reference: string;
            };
            receipt_number?: string;
            /** @description The latest first. Absent if there are none. */
            reversals?: {
                /** Format: int64 */
                amount: number;
                /** Format: int64 */
                created: number;
                currency: string;
                id: string;
                /** @description Whether money moves: false for what a test key made. */
                livemode: boolean;
                /** @constant */
                object: "transfer_reversal";
                /** @constant */
                status: "succeeded";
            }[];
            /**
             * @description failed: the provider took it back after it had succeeded.
             * @enum {string}
             */
            status: "succeeded" | "failed";
        };
        TransferRequest: {
            /**
             * Format: int64
             * @description Minor units of the currency.
             */
            amount: number;
            client_ts?: components["schemas"]["Unstable"];
            /** @description ISO 4217, lower case. */
            currency: string;
            /** @description Free text. Card numbers are refused, or masked if the account's setting says so. */
            description?: string;
            /** @description The account that is paid. */
            destination: string;
            /**
             * Format: date-time
             * @description Not payable from this time on.
             */
            expires_at?: string;
            /** @description Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier. */
            metadata?: {
                [key: string]: string;
            };
            order_id?: string;
            /** @description The payment provider, of the deployment's, that makes the payment. It is part of the request: a retry names the same. If it is absent, the account's routes or the default decide. The answer names the provider; a refund goes to the same one. */
            provider?: string;
            request_id?: components["schemas"]["Unstable"];
            sent_at?: components["schemas"]["Unstable"];
            trace_id?: components["schemas"]["Unstable"];
        };
        /** @description Ignored, and not compared: HTTP libraries change it with every attempt. */
        Unstable: unknown;
    };
    responses: {
        /** @description forbidden: the account is not enabled here. */
        Forbidden: {
            headers: {
                "Homeward-Home-Region": components["headers"]["HomeRegion"];
                "Homeward-Hops": components["headers"]["Hops"];
                "Homeward-Served-By": components["headers"]["ServedBy"];
                "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                "Idempotency-Key": components["headers"]["Key"];
                "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                "Idempotent-Replayed": components["headers"]["Replayed"];
                Link: components["headers"]["Link"];
                "Request-Id": components["headers"]["RequestID"];
                "Retry-After": components["headers"]["RetryAfter"];
                "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                "Stripe-Version": components["headers"]["StripeVersion"];
                Traceparent: components["headers"]["Traceparent"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["StripeError"];
                /**
                 * @example {
                 *       "type": "/errors/forbidden",
                 *       "title": "Not allowed",
                 *       "status": 403,
                 *       "detail": "This account is not enabled here.",
                 *       "error": "forbidden",
                 *       "retry": "never"
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description internal: a fault of ours; retry is same_key. */
        Internal: {
            headers: {
                "Homeward-Home-Region": components["headers"]["HomeRegion"];
                "Homeward-Hops": components["headers"]["Hops"];
                "Homeward-Served-By": components["headers"]["ServedBy"];
                "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                "Idempotency-Key": components["headers"]["Key"];
                "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                "Idempotent-Replayed": components["headers"]["Replayed"];
                Link: components["headers"]["Link"];
                "Request-Id": components["headers"]["RequestID"];
                "Retry-After": components["headers"]["RetryAfter"];
                "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                "Stripe-Version": components["headers"]["StripeVersion"];
                Traceparent: components["headers"]["Traceparent"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["StripeError"];
                /**
                 * @example {
                 *       "type": "/errors/internal",
                 *       "title": "Internal error",
                 *       "status": 500,
                 *       "detail": "Something went wrong on our side. Sending the same request again is safe.",
                 *       "error": "internal",
                 *       "retry": "same_key"
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description idempotency_key_missing, idempotency_key_invalid or invalid_request; member names what is wrong. */
        Invalid: {
            headers: {
                "Homeward-Home-Region": components["headers"]["HomeRegion"];
                "Homeward-Hops": components["headers"]["Hops"];
                "Homeward-Served-By": components["headers"]["ServedBy"];
                "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                "Idempotency-Key": components["headers"]["Key"];
                "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                "Idempotent-Replayed": components["headers"]["Replayed"];
                Link: components["headers"]["Link"];
                "Request-Id": components["headers"]["RequestID"];
                "Retry-After": components["headers"]["RetryAfter"];
                "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                "Stripe-Version": components["headers"]["StripeVersion"];
                Traceparent: components["headers"]["Traceparent"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["StripeError"];
                /**
                 * @example {
                 *       "type": "/errors/invalid_request",
                 *       "title": "The request is invalid",
                 *       "status": 400,
                 *       "detail": "Member amount: must be whole minor units, such as 1999 for 19.99.",
                 *       "error": "invalid_request",
                 *       "retry": "never",
                 *       "member": "amount"
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description unsupported_media_type: not application/json. */
        MediaType: {
            headers: {
                "Homeward-Home-Region": components["headers"]["HomeRegion"];
                "Homeward-Hops": components["headers"]["Hops"];
                "Homeward-Served-By": components["headers"]["ServedBy"];
                "Idempotency-Key": components["headers"]["Key"];
                Link: components["headers"]["Link"];
                "Request-Id": components["headers"]["RequestID"];
                "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                "Stripe-Version": components["headers"]["StripeVersion"];
                Traceparent: components["headers"]["Traceparent"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["StripeError"];
                /**
                 * @example {
                 *       "type": "/errors/unsupported_media_type",
                 *       "title": "Unsupported media type",
                 *       "status": 415,
                 *       "detail": "Send the body as application/json in UTF-8.",
                 *       "error": "unsupported_media_type",
                 *       "retry": "never"
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description not_found. */
        NotFound: {
            headers: {
                "Homeward-Home-Region": components["headers"]["HomeRegion"];
                "Homeward-Hops": components["headers"]["Hops"];
                "Homeward-Served-By": components["headers"]["ServedBy"];
                "Idempotency-Key": components["headers"]["Key"];
                Link: components["headers"]["Link"];
                "Request-Id": components["headers"]["RequestID"];
                "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                "Stripe-Version": components["headers"]["StripeVersion"];
                Traceparent: components["headers"]["Traceparent"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["StripeError"];
                /**
                 * @example {
                 *       "type": "/errors/not_found",
                 *       "title": "Not found",
                 *       "status": 404,
                 *       "detail": "There is no charge with this id.",
                 *       "error": "not_found",
                 *       "retry": "never"
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description store_unavailable: the notice could not be stored now; send it again. */
        NoticeBusy: {
            headers: {
                Link: components["headers"]["Link"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "/errors/store_unavailable",
                 *       "title": "The store is unavailable",
                 *       "status": 503,
                 *       "detail": "The notice could not be kept; send it again.",
                 *       "error": "store_unavailable",
                 *       "retry": "same_key",
                 *       "retry_after_ms": 1000
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description invalid_request: the signature does not match or is too old, or the body is malformed or was cut short. */
        NoticeRefused: {
            headers: {
                Link: components["headers"]["Link"];
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "type": "/errors/invalid_request",
                 *       "title": "The request is invalid",
                 *       "status": 400,
                 *       "detail": "The signature does not match.",
                 *       "error": "invalid_request",
                 *       "retry": "never"
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description rate_limited: retry is same_key. */
        RateLimited: {
            headers: {
                "Homeward-Home-Region": components["headers"]["HomeRegion"];
                "Homeward-Hops": components["headers"]["Hops"];
                "Homeward-Served-By": components["headers"]["ServedBy"];
                "Idempotency-Key": components["headers"]["Key"];
                Link: components["headers"]["Link"];
                "Request-Id": components["headers"]["RequestID"];
                "Retry-After": components["headers"]["RetryAfter"];
                "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                "Stripe-Version": components["headers"]["StripeVersion"];
                Traceparent: components["headers"]["Traceparent"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["StripeError"];
                /**
                 * @example {
                 *       "type": "/errors/rate_limited",
                 *       "title": "Too many requests",
                 *       "status": 429,
                 *       "detail": "This account sends too many requests.",
                 *       "error": "rate_limited",
                 *       "retry": "same_key",
                 *       "retry_after_ms": 1000
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description body_too_large: over 1 MiB. */
        TooLarge: {
            headers: {
                "Homeward-Home-Region": components["headers"]["HomeRegion"];
                "Homeward-Hops": components["headers"]["Hops"];
                "Homeward-Served-By": components["headers"]["ServedBy"];
                "Idempotency-Key": components["headers"]["Key"];
                Link: components["headers"]["Link"];
                "Request-Id": components["headers"]["RequestID"];
                "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                "Stripe-Version": components["headers"]["StripeVersion"];
                Traceparent: components["headers"]["Traceparent"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["StripeError"];
                /**
                 * @example {
                 *       "type": "/errors/body_too_large",
                 *       "title": "The body is too large",
                 *       "status": 413,
                 *       "detail": "The body is longer than 1048576 bytes.",
                 *       "error": "body_too_large",
                 *       "retry": "never"
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description unauthorized: no valid API key. */
        Unauthorized: {
            headers: {
                "Homeward-Home-Region": components["headers"]["HomeRegion"];
                "Homeward-Hops": components["headers"]["Hops"];
                "Homeward-Served-By": components["headers"]["ServedBy"];
                "Idempotency-Key": components["headers"]["Key"];
                Link: components["headers"]["Link"];
                "Request-Id": components["headers"]["RequestID"];
                "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                "Stripe-Version": components["headers"]["StripeVersion"];
                Traceparent: components["headers"]["Traceparent"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["StripeError"];
                /**
                 * @example {
                 *       "type": "/errors/unauthorized",
                 *       "title": "No valid API key",
                 *       "status": 401,
                 *       "detail": "Send the API key as Authorization: Bearer.",
                 *       "error": "unauthorized",
                 *       "retry": "never"
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description store_unavailable, home_unavailable, idempotency_key_withheld or outcome_unknown: retry is same_key. idempotency_key_withheld: records of a recent time were lost, and the key may have been used in it; a request that was certainly never sent before can be sent under a key from POST /v1/idempotency-keys. One outcome_unknown is final: the look-ups at the provider were given up. Retries with the same key read it again. For a charge retry is new_key: if the provider reports the charge as made later, the payer gets the money back. For a transfer or a refund retry is never: no one can take a late one back, so a person must ask the provider whether it was made before another one is. */
        Unavailable: {
            headers: {
                "Homeward-Home-Region": components["headers"]["HomeRegion"];
                "Homeward-Hops": components["headers"]["Hops"];
                "Homeward-Served-By": components["headers"]["ServedBy"];
                "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                "Idempotency-Key": components["headers"]["Key"];
                "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                "Idempotent-Replayed": components["headers"]["Replayed"];
                Link: components["headers"]["Link"];
                "Request-Id": components["headers"]["RequestID"];
                "Retry-After": components["headers"]["RetryAfter"];
                "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                "Stripe-Version": components["headers"]["StripeVersion"];
                Traceparent: components["headers"]["Traceparent"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["StripeError"];
                /**
                 * @example {
                 *       "type": "/errors/outcome_unknown",
                 *       "title": "The outcome is not known yet",
                 *       "status": 503,
                 *       "detail": "It is not known yet whether money moved; the provider is being asked. Send the same request again to learn it; it is never charged twice.",
                 *       "error": "outcome_unknown",
                 *       "retry": "same_key",
                 *       "retry_after_ms": 1000
                 *     }
                 */
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: {
        /**
         * @description The home that an earlier answer named. It saves a look-up; a wrong one costs a hop.
         * @example us-east1
         */
        HomeHint: string;
        /**
         * @description 1 to 255 visible ASCII characters, bare or as a String of RFC 9651; both spell the same key. Parameters of a String are ignored. A bare key is taken literally. A UUID is one key in either case.
         * @example "order-6735"
         */
        IdempotencyKey: string;
        /** @description The ETag of an earlier answer. 304, without a body, if the object has not changed. */
        IfNoneMatch: string;
        /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
        StripeVersion: string;
        /** @description W3C trace context. */
        Traceparent: string;
        /**
         * @description The event's id.
         * @example evt_ch_709ho4tsaa2m1e5p000p0h0d84_1
         */
        WebhookId: string;
        /**
         * @description One or more signatures with a space between them, each v1, and the base64 of HMAC-SHA256 over id.timestamp.body. One valid signature is enough.
         * @example v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=
         */
        WebhookSignature: string;
        /**
         * @description Unix time of this delivery, in seconds. Refuse a delivery that is older than five minutes.
         * @example 1795370831
         */
        WebhookTimestamp: string;
    };
    requestBodies: never;
    headers: {
        /**
         * @description Weak: of all but as_of.
         * @example W/"8f434346648f6b96df89dda901c5176b"
         */
        ETag: string;
        /**
         * @description Until when retries read this answer; of a 410, until when the key stays spent. On errors only if the claim was read. Of a claim without an answer, the earliest possible time. Never in the past.
         * @example 2026-11-23T18:07:10Z
         */
        ExpiresAt: string;
        /**
         * @description The key's home; on errors only if it was found. Send it back with retries.
         * @example us-east1
         */
        HomeRegion: string;
        /**
         * @description Forwards between regions; on errors only if the request was forwarded.
         * @example 0
         */
        Hops: number;
        /**
         * @description The key as it was sent.
         * @example order-6735
         */
        Key: string;
        /**
         * @description On errors: the page that explains the error to people, with the relation describedby (section 2.7 of draft-ietf-httpapi-idempotency-key-header-07, which expired on 18 April 2026).
         * @example </errors/idempotency_key_in_use>; rel="describedby"; type="text/html"
         */
        Link: string;
        /**
         * @description Where the object is.
         * @example /v1/charges/ch_709ho4tsaa2m1e5p000p0h0d84
         */
        Location: string;
        /**
         * @description When the key was first used; on replays.
         * @example 2026-11-22T18:07:10Z
         */
        OriginalRequestAt: string;
        /** @description Present if the answer was stored before. */
        Replayed: "true";
        /** @description With Stripe-Version: req_ and the id of the request's trace. */
        RequestID: string;
        /**
         * @description Whole seconds after which a retry is useful; retry_after_ms is more exact.
         * @example 5
         */
        RetryAfter: number;
        /**
         * @description The region that answered; on errors the one that got the request.
         * @example us-east1
         */
        ServedBy: string;
        /** @description With Stripe-Version: whether a client should repeat the request by itself. */
        ShouldRetry: "true" | "false";
        /** @description The Stripe-Version of the request. */
        StripeVersion: string;
        /**
         * @description W3C trace context.
         * @example 00-179c87177cfda133957bc534dcf0c3ca-1fd6d53000b40d61-00
         */
        Traceparent: string;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    listErrors: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
        };
    };
    explainError: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The error's name. */
                error: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page: what it means, whether a retry is safe, what to do. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            /** @description There is no error of this name. */
            404: {
                headers: {
                    Link: components["headers"]["Link"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "type": "/errors/not_found",
                     *       "title": "Not found",
                     *       "status": 404,
                     *       "detail": "There is no such path.",
                     *       "error": "not_found",
                     *       "retry": "never"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    livez: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Yes. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
    readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Yes. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description No: it is shutting down, its region is drained or down, or its database does not answer. The detail says which. Requests that arrive all the same are answered. */
            503: {
                headers: {
                    Link: components["headers"]["Link"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "type": "/errors/not_ready",
                     *       "title": "This node is not ready",
                     *       "status": 503,
                     *       "detail": "Draining.",
                     *       "error": "not_ready",
                     *       "retry": "same_key"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["NotReady"];
                };
            };
        };
    };
    listCharges: {
        parameters: {
            query?: {
                /** @description Bounds of when it was created, as created[gte]=…, in Unix seconds; created=… is that second. */
                created?: {
                    /** Format: int64 */
                    gt?: number;
                    /** Format: int64 */
                    gte?: number;
                    /** Format: int64 */
                    lt?: number;
                    /** Format: int64 */
                    lte?: number;
                };
                /** @description The page ends before this charge. */
                ending_before?: string;
                /** @description With Stripe-Version only. */
                "expand[]"?: "data.payment_intent"[];
                /** @description The most charges of a page. */
                limit?: number;
                /** @description Those with this order_id. */
                order_id?: string;
                /** @description The charge of this payment intent, by itself. */
                payment_intent?: string;
                /** @description The page begins behind this charge, at an older one. */
                starting_after?: string;
            };
            header?: {
                /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
                "Stripe-Version"?: components["parameters"]["StripeVersion"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of the list. */
            200: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "object": "list",
                     *       "data": [
                     *         {
                     *           "id": "ch_709ho4tsaa2m1e5p000p0h0d84",
                     *           "object": "charge",
                     *           "amount": 1999,
                     *           "currency": "usd",
                     *           "status": "succeeded",
                     *           "created": 1795371000,
                     *           "order_id": "order-17",
                     *           "metadata": {
                     *             "color": "red"
                     *           },
                     *           "provider": {
                     *             "name": "simulator",
                     *             "reference": "psp_ch_000000000001"
                     *           },
                     *           "amount_captured": 1999,
                     *           "amount_refunded": 500
                     *         }
                     *       ],
                     *       "has_more": false,
                     *       "url": "/v1/charges"
                     *     }
                     */
                    "application/json": components["schemas"]["ChargeList"] | components["schemas"]["StripeList"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    createCharge: {
        parameters: {
            query?: never;
            header: {
                /**
                 * @description The home that an earlier answer named. It saves a look-up; a wrong one costs a hop.
                 * @example us-east1
                 */
                "Homeward-Home-Region"?: components["parameters"]["HomeHint"];
                /**
                 * @description 1 to 255 visible ASCII characters, bare or as a String of RFC 9651; both spell the same key. Parameters of a String are ignored. A bare key is taken literally. A UUID is one key in either case.
                 * @example "order-6735"
                 */
                "Idempotency-Key": components["parameters"]["IdempotencyKey"];
                /** @description With Stripe-Version, for a form: the connected account that makes the payment. */
                "Stripe-Account"?: string;
                /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
                "Stripe-Version"?: components["parameters"]["StripeVersion"];
                /** @description W3C trace context. */
                Traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "amount": 1999,
                 *       "currency": "usd",
                 *       "payment_method": "pm_card_visa",
                 *       "order_id": "6735",
                 *       "metadata": {
                 *         "cart": "c-12"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ChargeRequest"];
                "application/x-www-form-urlencoded": components["schemas"]["StripeChargeForm"];
            };
        };
        responses: {
            /** @description For a request with Stripe-Version. A pure rendering of the stored answer: every retry reads the same bytes where that answer is repeated. */
            200: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeCharge"];
                };
            };
            /** @description Money moved. */
            201: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Location: components["headers"]["Location"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "ch_709ho4tsaa2m1e5p000p0h0d84",
                     *       "object": "charge",
                     *       "amount": 1999,
                     *       "currency": "usd",
                     *       "status": "succeeded",
                     *       "created": 1795370830,
                     *       "livemode": true,
                     *       "payment_method": "pm_card_visa",
                     *       "order_id": "6735",
                     *       "metadata": {
                     *         "cart": "c-12"
                     *       },
                     *       "receipt_number": "R-709H-O4TS-AA2M",
                     *       "provider": {
                     *         "name": "simulator",
                     *         "reference": "psp_ch_000000000001"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Charge"];
                };
            };
            /** @description The charge waits for its payer (requires_action), for a bank (processing) or to be captured (requires_capture). Until its status changes, every retry reads the same bytes; then the next answer, and at last the final one. The charge ends at expires_at; without one, a charge that waits for its payer ends after a day. */
            202: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Location: components["headers"]["Location"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "ch_709ho4tsaa2m1e5p000p0h0d84",
                     *       "object": "charge",
                     *       "amount": 1999,
                     *       "currency": "usd",
                     *       "status": "requires_capture",
                     *       "created": 1795370830,
                     *       "livemode": true,
                     *       "payment_method": "pm_card_visa",
                     *       "order_id": "6735",
                     *       "metadata": {
                     *         "cart": "c-12"
                     *       },
                     *       "receipt_number": "R-709H-O4TS-AA2M",
                     *       "provider": {
                     *         "name": "simulator",
                     *         "reference": "psp_ch_000000000001"
                     *       },
                     *       "capture_method": "manual",
                     *       "amount_capturable": 1999
                     *     }
                     */
                    "application/json": components["schemas"]["Charge"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            /** @description card_declined. Hard: remembered, retry is new_key. Soft: the key is released, retry is same_key. Requests that are under way together, or begin before Retry-After is over, read one decline. */
            402: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/card_declined",
                     *       "title": "The payment was declined",
                     *       "status": 402,
                     *       "detail": "The card has insufficient funds.",
                     *       "error": "card_declined",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 1000,
                     *       "code": "insufficient_funds"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            403: components["responses"]["Forbidden"];
            /** @description idempotency_key_in_use: a request with this key is being worked on; retry is same_key. */
            409: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_in_use",
                     *       "title": "A request with this key is in progress",
                     *       "status": 409,
                     *       "detail": "A request with this key is still being worked on. Send it again later to read its result.",
                     *       "error": "idempotency_key_in_use",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 5000
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description idempotency_key_canceled: the account canceled the key before it was answered. idempotency_key_expired: its answer was kept for 24 h; original_request_at is the time of the first use. */
            410: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_expired",
                     *       "title": "The key has expired",
                     *       "status": 410,
                     *       "detail": "This key was first used at 2026-11-20T18:07:10Z and its answer is no longer kept. Find out what became of that request before you send another with a new key.",
                     *       "error": "idempotency_key_expired",
                     *       "retry": "new_key",
                     *       "original_request_at": "2026-11-20T18:07:10Z"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["TooLarge"];
            415: components["responses"]["MediaType"];
            /** @description idempotency_key_fingerprint_mismatch: the key belongs to another request. */
            422: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_fingerprint_mismatch",
                     *       "title": "The key belongs to a different request",
                     *       "status": 422,
                     *       "detail": "This key was first used with a different request. Send that request again, or this one with a new key.",
                     *       "error": "idempotency_key_fingerprint_mismatch",
                     *       "retry": "never"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getCharge: {
        parameters: {
            query?: {
                /** @description With Stripe-Version only. */
                expand?: ("payment_intent" | "refunds")[];
            };
            header?: {
                /** @description The ETag of an earlier answer. 304, without a body, if the object has not changed. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
                "Stripe-Version"?: components["parameters"]["StripeVersion"];
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The object as it is now, read with authority. A retry of its request repeats the first answer instead. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "ch_709ho4tsaa2m1e5p000p0h0d84",
                     *       "object": "charge",
                     *       "amount": 1999,
                     *       "currency": "usd",
                     *       "status": "succeeded",
                     *       "created": 1795370830,
                     *       "livemode": true,
                     *       "payment_method": "pm_card_visa",
                     *       "order_id": "6735",
                     *       "metadata": {
                     *         "cart": "c-12"
                     *       },
                     *       "receipt_number": "R-709H-O4TS-AA2M",
                     *       "provider": {
                     *         "name": "simulator",
                     *         "reference": "psp_ch_000000000001"
                     *       },
                     *       "amount_captured": 1999,
                     *       "amount_refunded": 500,
                     *       "refunds": [
                     *         {
                     *           "id": "re_81o2c9u6ga2m1e5p000p0h0d84",
                     *           "object": "refund",
                     *           "amount": 500,
                     *           "currency": "usd",
                     *           "status": "succeeded",
                     *           "created": 1795371002,
                     *           "livemode": true,
                     *           "charge": "ch_709ho4tsaa2m1e5p000p0h0d84",
                     *           "provider": {
                     *             "name": "simulator",
                     *             "reference": "psp_re_000000000002"
                     *           }
                     *         }
                     *       ],
                     *       "as_of": 1795380000
                     *     }
                     */
                    "application/json": components["schemas"]["ChargeNow"] | components["schemas"]["StripeCharge"];
                };
            };
            /** @description If-None-Match names the object as it is. */
            304: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    cancelCharge: {
        parameters: {
            query?: never;
            header: {
                /**
                 * @description The home that an earlier answer named. It saves a look-up; a wrong one costs a hop.
                 * @example us-east1
                 */
                "Homeward-Home-Region"?: components["parameters"]["HomeHint"];
                /**
                 * @description 1 to 255 visible ASCII characters, bare or as a String of RFC 9651; both spell the same key. Parameters of a String are ignored. A bare key is taken literally. A UUID is one key in either case.
                 * @example "order-6735"
                 */
                "Idempotency-Key": components["parameters"]["IdempotencyKey"];
                /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
                "Stripe-Version"?: components["parameters"]["StripeVersion"];
                /** @description W3C trace context. */
                Traceparent?: components["parameters"]["Traceparent"];
            };
            path: {
                /** @description The charge's id. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /** @example {} */
                "application/json": components["schemas"]["CancelRequest"];
                "application/x-www-form-urlencoded": components["schemas"]["StripeCancelForm"];
            };
        };
        responses: {
            /** @description The charge is canceled. With Stripe-Version, as Stripe shows it. */
            200: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Location: components["headers"]["Location"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Charge"] | components["schemas"]["StripeCharge"];
                };
            };
            /** @description The provider has the request and reports the result later: the charge is processing. Every retry reads the same bytes until then. */
            202: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Location: components["headers"]["Location"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Charge"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            /** @description card_declined. Hard: remembered, retry is new_key. Soft: the key is released, retry is same_key. Requests that are under way together, or begin before Retry-After is over, read one decline. */
            402: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/card_declined",
                     *       "title": "The payment was declined",
                     *       "status": 402,
                     *       "detail": "The card has insufficient funds.",
                     *       "error": "card_declined",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 1000,
                     *       "code": "insufficient_funds"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description idempotency_key_in_use: a request with this key is being worked on; retry is same_key. */
            409: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_in_use",
                     *       "title": "A request with this key is in progress",
                     *       "status": 409,
                     *       "detail": "A request with this key is still being worked on. Send it again later to read its result.",
                     *       "error": "idempotency_key_in_use",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 5000
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description idempotency_key_canceled: the account canceled the key before it was answered. idempotency_key_expired: its answer was kept for 24 h; original_request_at is the time of the first use. */
            410: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_expired",
                     *       "title": "The key has expired",
                     *       "status": 410,
                     *       "detail": "This key was first used at 2026-11-20T18:07:10Z and its answer is no longer kept. Find out what became of that request before you send another with a new key.",
                     *       "error": "idempotency_key_expired",
                     *       "retry": "new_key",
                     *       "original_request_at": "2026-11-20T18:07:10Z"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["TooLarge"];
            415: components["responses"]["MediaType"];
            /** @description idempotency_key_fingerprint_mismatch: the key belongs to another request. */
            422: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_fingerprint_mismatch",
                     *       "title": "The key belongs to a different request",
                     *       "status": 422,
                     *       "detail": "This key was first used with a different request. Send that request again, or this one with a new key.",
                     *       "error": "idempotency_key_fingerprint_mismatch",
                     *       "retry": "never"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    captureCharge: {
        parameters: {
            query?: never;
            header: {
                /**
                 * @description The home that an earlier answer named. It saves a look-up; a wrong one costs a hop.
                 * @example us-east1
                 */
                "Homeward-Home-Region"?: components["parameters"]["HomeHint"];
                /**
                 * @description 1 to 255 visible ASCII characters, bare or as a String of RFC 9651; both spell the same key. Parameters of a String are ignored. A bare key is taken literally. A UUID is one key in either case.
                 * @example "order-6735"
                 */
                "Idempotency-Key": components["parameters"]["IdempotencyKey"];
                /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
                "Stripe-Version"?: components["parameters"]["StripeVersion"];
                /** @description W3C trace context. */
                Traceparent?: components["parameters"]["Traceparent"];
            };
            path: {
                /** @description The charge's id. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "amount": 600
                 *     }
                 */
                "application/json": components["schemas"]["CaptureRequest"];
                "application/x-www-form-urlencoded": components["schemas"]["StripeCaptureForm"];
            };
        };
        responses: {
            /** @description The charge is captured. With Stripe-Version, as Stripe shows it. */
            200: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Location: components["headers"]["Location"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Charge"] | components["schemas"]["StripeCharge"];
                };
            };
            /** @description The provider has the request and reports the result later: the charge is processing. Every retry reads the same bytes until then. */
            202: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Location: components["headers"]["Location"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Charge"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            /** @description card_declined. Hard: remembered, retry is new_key. Soft: the key is released, retry is same_key. Requests that are under way together, or begin before Retry-After is over, read one decline. */
            402: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/card_declined",
                     *       "title": "The payment was declined",
                     *       "status": 402,
                     *       "detail": "The card has insufficient funds.",
                     *       "error": "card_declined",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 1000,
                     *       "code": "insufficient_funds"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description idempotency_key_in_use: a request with this key is being worked on; retry is same_key. */
            409: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_in_use",
                     *       "title": "A request with this key is in progress",
                     *       "status": 409,
                     *       "detail": "A request with this key is still being worked on. Send it again later to read its result.",
                     *       "error": "idempotency_key_in_use",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 5000
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description idempotency_key_canceled: the account canceled the key before it was answered. idempotency_key_expired: its answer was kept for 24 h; original_request_at is the time of the first use. */
            410: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_expired",
                     *       "title": "The key has expired",
                     *       "status": 410,
                     *       "detail": "This key was first used at 2026-11-20T18:07:10Z and its answer is no longer kept. Find out what became of that request before you send another with a new key.",
                     *       "error": "idempotency_key_expired",
                     *       "retry": "new_key",
                     *       "original_request_at": "2026-11-20T18:07:10Z"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["TooLarge"];
            415: components["responses"]["MediaType"];
            /** @description idempotency_key_fingerprint_mismatch: the key belongs to another request. */
            422: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_fingerprint_mismatch",
                     *       "title": "The key belongs to a different request",
                     *       "status": 422,
                     *       "detail": "This key was first used with a different request. Send that request again, or this one with a new key.",
                     *       "error": "idempotency_key_fingerprint_mismatch",
                     *       "retry": "never"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    mintKeys: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "count": 2
                 *     }
                 */
                "application/json": {
                    /** Format: int32 */
                    count: number;
                };
            };
        };
        responses: {
            /** @description Fresh keys. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "keys": [
                     *         "dc624101-57ad-8a3e-97f3-0001033bca33",
                     *         "bd1a4b57-f010-83c9-ac22-0001cba93ee8"
                     *       ]
                     *     }
                     */
                    "application/json": {
                        keys: string[];
                    };
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["MediaType"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    inspectKey: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The home that an earlier answer named. It saves a look-up; a wrong one costs a hop.
                 * @example us-east1
                 */
                "Homeward-Home-Region"?: components["parameters"]["HomeHint"];
            };
            path: {
                /** @description As in the Idempotency-Key header, percent-encoded. */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The key's state and history. */
            200: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "key": "order-6735",
                     *       "state": "COMPLETED",
                     *       "home_region": "us-east1",
                     *       "attempts": 1,
                     *       "first_used_at": "2026-11-22T18:07:10Z",
                     *       "expires_at": "2026-11-23T18:07:10Z",
                     *       "free_at": "2026-11-24T18:07:10Z",
                     *       "object": "ch_709ho4tsaa2m1e5p000p0h0d84",
                     *       "timeline": [
                     *         {
                     *           "at": "2026-11-22T18:07:10.628Z",
                     *           "event": "claimed",
                     *           "region": "us-east1",
                     *           "fence": 1,
                     *           "detail": "charge"
                     *         },
                     *         {
                     *           "at": "2026-11-22T18:07:10.711Z",
                     *           "event": "settled",
                     *           "region": "us-east1",
                     *           "fence": 1
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["KeyStatus"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    cancelKey: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The home that an earlier answer named. It saves a look-up; a wrong one costs a hop.
                 * @example us-east1
                 */
                "Homeward-Home-Region"?: components["parameters"]["HomeHint"];
            };
            path: {
                /** @description As in the Idempotency-Key header, percent-encoded. */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is known what happened. */
            200: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "object": "cancellation",
                     *       "idempotency_key": "order-6735",
                     *       "outcome": "refunded",
                     *       "charge": "ch_709ho4tsaa2m1e5p000p0h0d84",
                     *       "refund": "re_709ho4tsaa2m1e5p000p0h0d84"
                     *     }
                     */
                    "application/json": components["schemas"]["Cancellation"];
                };
            };
            /** @description It is not over yet, and goes on by itself. Retry-After says when to ask again. */
            202: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "object": "cancellation",
                     *       "idempotency_key": "order-6735",
                     *       "outcome": "unknown",
                     *       "charge": "ch_709ho4tsaa2m1e5p000p0h0d84"
                     *     }
                     */
                    "application/json": components["schemas"]["Cancellation"];
                };
            };
            /** @description idempotency_key_invalid; or invalid_request. With code already_made, not_refundable or outcome_unknown the money cannot be called back, and detail says what a person has to do. */
            400: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    Link: components["headers"]["Link"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            /** @description idempotency_key_in_use: a request with this key is being worked on; retry is same_key. */
            409: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_in_use",
                     *       "title": "A request with this key is in progress",
                     *       "status": 409,
                     *       "detail": "A request with this key is still being worked on. Send it again later to read its result.",
                     *       "error": "idempotency_key_in_use",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 5000
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description idempotency_key_expired: the key's time is over. Read the object, and refund it by its id. */
            410: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_expired",
                     *       "title": "The key has expired",
                     *       "status": 410,
                     *       "detail": "This key was first used at 2026-11-20T18:07:10Z and its answer is no longer kept. Find out what became of that request before you send another with a new key.",
                     *       "error": "idempotency_key_expired",
                     *       "retry": "new_key",
                     *       "original_request_at": "2026-11-20T18:07:10Z"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["TooLarge"];
            415: components["responses"]["MediaType"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getOpenAPI: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OpenAPI 3.1. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, never>;
                };
            };
        };
    };
    listPaymentIntents: {
        parameters: {
            query?: {
                /** @description Bounds of when it was created, as created[gte]=…, in Unix seconds; created=… is that second. */
                created?: {
                    /** Format: int64 */
                    gt?: number;
                    /** Format: int64 */
                    gte?: number;
                    /** Format: int64 */
                    lt?: number;
                    /** Format: int64 */
                    lte?: number;
                };
                /** @description The page ends before this payment intent. */
                ending_before?: string;
                /** @description With Stripe-Version only. */
                "expand[]"?: "data.latest_charge"[];
                /** @description The most payment intents of a page. */
                limit?: number;
                /** @description Those with this order_id. */
                order_id?: string;
                /** @description The page begins behind this payment intent, at an older one. */
                starting_after?: string;
            };
            header?: {
                /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
                "Stripe-Version"?: components["parameters"]["StripeVersion"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of the list. */
            200: {
                headers: {
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "object": "list",
                     *       "data": [],
                     *       "has_more": false,
                     *       "url": "/v1/payment_intents"
                     *     }
                     */
                    "application/json": components["schemas"]["StripeList"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    createPaymentIntent: {
        parameters: {
            query?: never;
            header: {
                /**
                 * @description The home that an earlier answer named. It saves a look-up; a wrong one costs a hop.
                 * @example us-east1
                 */
                "Homeward-Home-Region"?: components["parameters"]["HomeHint"];
                /**
                 * @description 1 to 255 visible ASCII characters, bare or as a String of RFC 9651; both spell the same key. Parameters of a String are ignored. A bare key is taken literally. A UUID is one key in either case.
                 * @example "order-6735"
                 */
                "Idempotency-Key": components["parameters"]["IdempotencyKey"];
                /** @description With Stripe-Version, for a form: the connected account that makes the payment. */
                "Stripe-Account"?: string;
                /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
                "Stripe-Version"?: components["parameters"]["StripeVersion"];
                /** @description W3C trace context. */
                Traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/x-www-form-urlencoded": components["schemas"]["StripePaymentIntentForm"];
            };
        };
        responses: {
            /** @description For a request with Stripe-Version. A pure rendering of the stored answer: every retry reads the same bytes where that answer is repeated. */
            200: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripePaymentIntent"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            /** @description card_declined. Hard: remembered, retry is new_key. Soft: the key is released, retry is same_key. Requests that are under way together, or begin before Retry-After is over, read one decline. */
            402: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/card_declined",
                     *       "title": "The payment was declined",
                     *       "status": 402,
                     *       "detail": "The card has insufficient funds.",
                     *       "error": "card_declined",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 1000,
                     *       "code": "insufficient_funds"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description idempotency_key_in_use: a request with this key is being worked on; retry is same_key. */
            409: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_in_use",
                     *       "title": "A request with this key is in progress",
                     *       "status": 409,
                     *       "detail": "A request with this key is still being worked on. Send it again later to read its result.",
                     *       "error": "idempotency_key_in_use",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 5000
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description idempotency_key_canceled: the account canceled the key before it was answered. idempotency_key_expired: its answer was kept for 24 h; original_request_at is the time of the first use. */
            410: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_expired",
                     *       "title": "The key has expired",
                     *       "status": 410,
                     *       "detail": "This key was first used at 2026-11-20T18:07:10Z and its answer is no longer kept. Find out what became of that request before you send another with a new key.",
                     *       "error": "idempotency_key_expired",
                     *       "retry": "new_key",
                     *       "original_request_at": "2026-11-20T18:07:10Z"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["TooLarge"];
            415: components["responses"]["MediaType"];
            /** @description idempotency_key_fingerprint_mismatch: the key belongs to another request. */
            422: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_fingerprint_mismatch",
                     *       "title": "The key belongs to a different request",
                     *       "status": 422,
                     *       "detail": "This key was first used with a different request. Send that request again, or this one with a new key.",
                     *       "error": "idempotency_key_fingerprint_mismatch",
                     *       "retry": "never"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getPaymentIntent: {
        parameters: {
            query?: {
                /** @description With Stripe-Version only. */
                expand?: ("latest_charge" | "latest_charge.refunds")[];
            };
            header?: {
                /** @description The ETag of an earlier answer. 304, without a body, if the object has not changed. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
                "Stripe-Version"?: components["parameters"]["StripeVersion"];
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The object as it is now, read with authority. A retry of its request repeats the first answer instead. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripePaymentIntent"];
                };
            };
            /** @description If-None-Match names the object as it is. */
            304: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    cancelPaymentIntent: {
        parameters: {
            query?: never;
            header: {
                /**
                 * @description The home that an earlier answer named. It saves a look-up; a wrong one costs a hop.
                 * @example us-east1
                 */
                "Homeward-Home-Region"?: components["parameters"]["HomeHint"];
                /**
                 * @description 1 to 255 visible ASCII characters, bare or as a String of RFC 9651; both spell the same key. Parameters of a String are ignored. A bare key is taken literally. A UUID is one key in either case.
                 * @example "order-6735"
                 */
                "Idempotency-Key": components["parameters"]["IdempotencyKey"];
                /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
                "Stripe-Version"?: components["parameters"]["StripeVersion"];
                /** @description W3C trace context. */
                Traceparent?: components["parameters"]["Traceparent"];
            };
            path: {
                /** @description The payment intent's id: that of its charge, with pi_ for ch_. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/x-www-form-urlencoded": components["schemas"]["StripePaymentIntentCancelForm"];
            };
        };
        responses: {
            /** @description The charge is canceled. */
            200: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripePaymentIntent"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            /** @description card_declined. Hard: remembered, retry is new_key. Soft: the key is released, retry is same_key. Requests that are under way together, or begin before Retry-After is over, read one decline. */
            402: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/card_declined",
                     *       "title": "The payment was declined",
                     *       "status": 402,
                     *       "detail": "The card has insufficient funds.",
                     *       "error": "card_declined",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 1000,
                     *       "code": "insufficient_funds"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description idempotency_key_in_use: a request with this key is being worked on; retry is same_key. */
            409: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_in_use",
                     *       "title": "A request with this key is in progress",
                     *       "status": 409,
                     *       "detail": "A request with this key is still being worked on. Send it again later to read its result.",
                     *       "error": "idempotency_key_in_use",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 5000
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description idempotency_key_canceled: the account canceled the key before it was answered. idempotency_key_expired: its answer was kept for 24 h; original_request_at is the time of the first use. */
            410: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_expired",
                     *       "title": "The key has expired",
                     *       "status": 410,
                     *       "detail": "This key was first used at 2026-11-20T18:07:10Z and its answer is no longer kept. Find out what became of that request before you send another with a new key.",
                     *       "error": "idempotency_key_expired",
                     *       "retry": "new_key",
                     *       "original_request_at": "2026-11-20T18:07:10Z"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["TooLarge"];
            415: components["responses"]["MediaType"];
            /** @description idempotency_key_fingerprint_mismatch: the key belongs to another request. */
            422: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_fingerprint_mismatch",
                     *       "title": "The key belongs to a different request",
                     *       "status": 422,
                     *       "detail": "This key was first used with a different request. Send that request again, or this one with a new key.",
                     *       "error": "idempotency_key_fingerprint_mismatch",
                     *       "retry": "never"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    capturePaymentIntent: {
        parameters: {
            query?: never;
            header: {
                /**
                 * @description The home that an earlier answer named. It saves a look-up; a wrong one costs a hop.
                 * @example us-east1
                 */
                "Homeward-Home-Region"?: components["parameters"]["HomeHint"];
                /**
                 * @description 1 to 255 visible ASCII characters, bare or as a String of RFC 9651; both spell the same key. Parameters of a String are ignored. A bare key is taken literally. A UUID is one key in either case.
                 * @example "order-6735"
                 */
                "Idempotency-Key": components["parameters"]["IdempotencyKey"];
                /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
                "Stripe-Version"?: components["parameters"]["StripeVersion"];
                /** @description W3C trace context. */
                Traceparent?: components["parameters"]["Traceparent"];
            };
            path: {
                /** @description The payment intent's id: that of its charge, with pi_ for ch_. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/x-www-form-urlencoded": components["schemas"]["StripePaymentIntentCaptureForm"];
            };
        };
        responses: {
            /** @description The charge is captured. */
            200: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripePaymentIntent"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            /** @description card_declined. Hard: remembered, retry is new_key. Soft: the key is released, retry is same_key. Requests that are under way together, or begin before Retry-After is over, read one decline. */
            402: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/card_declined",
                     *       "title": "The payment was declined",
                     *       "status": 402,
                     *       "detail": "The card has insufficient funds.",
                     *       "error": "card_declined",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 1000,
                     *       "code": "insufficient_funds"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            /** @description idempotency_key_in_use: a request with this key is being worked on; retry is same_key. */
            409: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_in_use",
                     *       "title": "A request with this key is in progress",
                     *       "status": 409,
                     *       "detail": "A request with this key is still being worked on. Send it again later to read its result.",
                     *       "error": "idempotency_key_in_use",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 5000
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description idempotency_key_canceled: the account canceled the key before it was answered. idempotency_key_expired: its answer was kept for 24 h; original_request_at is the time of the first use. */
            410: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_expired",
                     *       "title": "The key has expired",
                     *       "status": 410,
                     *       "detail": "This key was first used at 2026-11-20T18:07:10Z and its answer is no longer kept. Find out what became of that request before you send another with a new key.",
                     *       "error": "idempotency_key_expired",
                     *       "retry": "new_key",
                     *       "original_request_at": "2026-11-20T18:07:10Z"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["TooLarge"];
            415: components["responses"]["MediaType"];
            /** @description idempotency_key_fingerprint_mismatch: the key belongs to another request. */
            422: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_fingerprint_mismatch",
                     *       "title": "The key belongs to a different request",
                     *       "status": 422,
                     *       "detail": "This key was first used with a different request. Send that request again, or this one with a new key.",
                     *       "error": "idempotency_key_fingerprint_mismatch",
                     *       "retry": "never"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    listRefunds: {
        parameters: {
            query?: {
                /** @description The charge's id. This or payment_intent is required. */
                charge?: string;
                /** @description The page ends before this refund. */
                ending_before?: string;
                /** @description The most refunds of a page. */
                limit?: number;
                /** @description The charge, by the id of its payment intent. */
                payment_intent?: string;
                /** @description The page begins behind this refund, an older one. */
                starting_after?: string;
            };
            header?: {
                /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
                "Stripe-Version"?: components["parameters"]["StripeVersion"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of the list. */
            200: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "object": "list",
                     *       "data": [
                     *         {
                     *           "id": "re_2vio95pd2q6v9fab000tmuddec",
                     *           "object": "refund",
                     *           "amount": 500,
                     *           "currency": "usd",
                     *           "status": "succeeded",
                     *           "created": 1795371002,
                     *           "livemode": true,
                     *           "charge": "ch_709ho4tsaa2m1e5p000p0h0d84",
                     *           "provider": {
                     *             "name": "simulator",
                     *             "reference": "psp_re_000000000002"
                     *           }
                     *         }
                     *       ],
                     *       "has_more": false,
                     *       "url": "/v1/refunds?charge=ch_709ho4tsaa2m1e5p000p0h0d84"
                     *     }
                     */
                    "application/json": components["schemas"]["RefundList"] | components["schemas"]["StripeList"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    createRefund: {
        parameters: {
            query?: never;
            header: {
                /**
                 * @description The home that an earlier answer named. It saves a look-up; a wrong one costs a hop.
                 * @example us-east1
                 */
                "Homeward-Home-Region"?: components["parameters"]["HomeHint"];
                /**
                 * @description 1 to 255 visible ASCII characters, bare or as a String of RFC 9651; both spell the same key. Parameters of a String are ignored. A bare key is taken literally. A UUID is one key in either case.
                 * @example "order-6735"
                 */
                "Idempotency-Key": components["parameters"]["IdempotencyKey"];
                /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
                "Stripe-Version"?: components["parameters"]["StripeVersion"];
                /** @description W3C trace context. */
                Traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "charge": "ch_709ho4tsaa2m1e5p000p0h0d84",
                 *       "amount": 500,
                 *       "reason": "damaged"
                 *     }
                 */
                "application/json": components["schemas"]["RefundRequest"];
                "application/x-www-form-urlencoded": components["schemas"]["StripeRefundForm"];
            };
        };
        responses: {
            /** @description For a request with Stripe-Version. A pure rendering of the stored answer: every retry reads the same bytes where that answer is repeated. */
            200: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeRefund"];
                };
            };
            /** @description Money moved. */
            201: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Location: components["headers"]["Location"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "re_2vio95pd2q6v9fab000tmuddec",
                     *       "object": "refund",
                     *       "amount": 500,
                     *       "currency": "usd",
                     *       "status": "succeeded",
                     *       "created": 1795370831,
                     *       "livemode": true,
                     *       "charge": "ch_709ho4tsaa2m1e5p000p0h0d84",
                     *       "reason": "damaged",
                     *       "receipt_number": "R-2VIO-95PD-2Q6V",
                     *       "provider": {
                     *         "name": "simulator",
                     *         "reference": "psp_re_000000000002"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Refund"];
                };
            };
            /** @description The provider has accepted the refund, and has not paid it out. Every retry reads the same bytes until then; after that the final answer. */
            202: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Location: components["headers"]["Location"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "re_2vio95pd2q6v9fab000tmuddec",
                     *       "object": "refund",
                     *       "amount": 500,
                     *       "currency": "usd",
                     *       "status": "processing",
                     *       "created": 1795370831,
                     *       "livemode": true,
                     *       "charge": "ch_709ho4tsaa2m1e5p000p0h0d84",
                     *       "reason": "damaged",
                     *       "receipt_number": "R-2VIO-95PD-2Q6V",
                     *       "provider": {
                     *         "name": "simulator",
                     *         "reference": "psp_re_000000000002"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Refund"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            /** @description card_declined. Hard: remembered, retry is new_key. Soft: the key is released, retry is same_key. Requests that are under way together, or begin before Retry-After is over, read one decline. */
            402: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/card_declined",
                     *       "title": "The payment was declined",
                     *       "status": 402,
                     *       "detail": "The card has insufficient funds.",
                     *       "error": "card_declined",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 1000,
                     *       "code": "insufficient_funds"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            403: components["responses"]["Forbidden"];
            /** @description idempotency_key_in_use: a request with this key is being worked on; retry is same_key. */
            409: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_in_use",
                     *       "title": "A request with this key is in progress",
                     *       "status": 409,
                     *       "detail": "A request with this key is still being worked on. Send it again later to read its result.",
                     *       "error": "idempotency_key_in_use",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 5000
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description idempotency_key_canceled: the account canceled the key before it was answered. idempotency_key_expired: its answer was kept for 24 h; original_request_at is the time of the first use. */
            410: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_expired",
                     *       "title": "The key has expired",
                     *       "status": 410,
                     *       "detail": "This key was first used at 2026-11-20T18:07:10Z and its answer is no longer kept. Find out what became of that request before you send another with a new key.",
                     *       "error": "idempotency_key_expired",
                     *       "retry": "new_key",
                     *       "original_request_at": "2026-11-20T18:07:10Z"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["TooLarge"];
            415: components["responses"]["MediaType"];
            /** @description idempotency_key_fingerprint_mismatch: the key belongs to another request. */
            422: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_fingerprint_mismatch",
                     *       "title": "The key belongs to a different request",
                     *       "status": 422,
                     *       "detail": "This key was first used with a different request. Send that request again, or this one with a new key.",
                     *       "error": "idempotency_key_fingerprint_mismatch",
                     *       "retry": "never"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getRefund: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag of an earlier answer. 304, without a body, if the object has not changed. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
                "Stripe-Version"?: components["parameters"]["StripeVersion"];
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The object as it is now, read with authority. A retry of its request repeats the first answer instead. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "re_2vio95pd2q6v9fab000tmuddec",
                     *       "object": "refund",
                     *       "amount": 500,
                     *       "currency": "usd",
                     *       "status": "succeeded",
                     *       "created": 1795370831,
                     *       "livemode": true,
                     *       "charge": "ch_709ho4tsaa2m1e5p000p0h0d84",
                     *       "reason": "damaged",
                     *       "receipt_number": "R-2VIO-95PD-2Q6V",
                     *       "provider": {
                     *         "name": "simulator",
                     *         "reference": "psp_re_000000000002"
                     *       },
                     *       "as_of": 1795380000
                     *     }
                     */
                    "application/json": components["schemas"]["RefundNow"] | components["schemas"]["StripeRefund"];
                };
            };
            /** @description If-None-Match names the object as it is. */
            304: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    advanceTestClock: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "advance": 86400
                 *     }
                 */
                "application/json": {
                    /**
                     * Format: int32
                     * @description Seconds.
                     */
                    advance: number;
                };
            };
        };
        responses: {
            /** @description It has passed in every region. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "advanced": 86400
                     *     }
                     */
                    "application/json": {
                        /**
                         * Format: int32
                         * @description Seconds.
                         */
                        advanced: number;
                    };
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["MediaType"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    createTransfer: {
        parameters: {
            query?: never;
            header: {
                /**
                 * @description The home that an earlier answer named. It saves a look-up; a wrong one costs a hop.
                 * @example us-east1
                 */
                "Homeward-Home-Region"?: components["parameters"]["HomeHint"];
                /**
                 * @description 1 to 255 visible ASCII characters, bare or as a String of RFC 9651; both spell the same key. Parameters of a String are ignored. A bare key is taken literally. A UUID is one key in either case.
                 * @example "order-6735"
                 */
                "Idempotency-Key": components["parameters"]["IdempotencyKey"];
                /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
                "Stripe-Version"?: components["parameters"]["StripeVersion"];
                /** @description W3C trace context. */
                Traceparent?: components["parameters"]["Traceparent"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "amount": 1500,
                 *       "currency": "usd",
                 *       "destination": "acct_1"
                 *     }
                 */
                "application/json": components["schemas"]["TransferRequest"];
                "application/x-www-form-urlencoded": components["schemas"]["StripeTransferForm"];
            };
        };
        responses: {
            /** @description For a request with Stripe-Version. A pure rendering of the stored answer: every retry reads the same bytes where that answer is repeated. */
            200: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeTransfer"];
                };
            };
            /** @description Money moved. */
            201: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Location: components["headers"]["Location"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "tr_jlr1b8fava28l541000rsm92gs",
                     *       "object": "transfer",
                     *       "amount": 1500,
                     *       "currency": "usd",
                     *       "status": "succeeded",
                     *       "created": 1795370831,
                     *       "livemode": true,
                     *       "destination": "acct_1",
                     *       "receipt_number": "R-JLR1-B8FA-VA28",
                     *       "provider": {
                     *         "name": "simulator",
                     *         "reference": "psp_tr_000000000003"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Transfer"];
                };
            };
            400: components["responses"]["Invalid"];
            401: components["responses"]["Unauthorized"];
            /** @description card_declined. Hard: remembered, retry is new_key. Soft: the key is released, retry is same_key. Requests that are under way together, or begin before Retry-After is over, read one decline. */
            402: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/card_declined",
                     *       "title": "The payment was declined",
                     *       "status": 402,
                     *       "detail": "The card has insufficient funds.",
                     *       "error": "card_declined",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 1000,
                     *       "code": "insufficient_funds"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            403: components["responses"]["Forbidden"];
            /** @description idempotency_key_in_use: a request with this key is being worked on; retry is same_key. */
            409: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Retry-After": components["headers"]["RetryAfter"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_in_use",
                     *       "title": "A request with this key is in progress",
                     *       "status": 409,
                     *       "detail": "A request with this key is still being worked on. Send it again later to read its result.",
                     *       "error": "idempotency_key_in_use",
                     *       "retry": "same_key",
                     *       "retry_after_ms": 5000
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description idempotency_key_canceled: the account canceled the key before it was answered. idempotency_key_expired: its answer was kept for 24 h; original_request_at is the time of the first use. */
            410: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    "Idempotency-Original-Request-At": components["headers"]["OriginalRequestAt"];
                    "Idempotent-Replayed": components["headers"]["Replayed"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_expired",
                     *       "title": "The key has expired",
                     *       "status": 410,
                     *       "detail": "This key was first used at 2026-11-20T18:07:10Z and its answer is no longer kept. Find out what became of that request before you send another with a new key.",
                     *       "error": "idempotency_key_expired",
                     *       "retry": "new_key",
                     *       "original_request_at": "2026-11-20T18:07:10Z"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["TooLarge"];
            415: components["responses"]["MediaType"];
            /** @description idempotency_key_fingerprint_mismatch: the key belongs to another request. */
            422: {
                headers: {
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Homeward-Hops": components["headers"]["Hops"];
                    "Homeward-Served-By": components["headers"]["ServedBy"];
                    "Idempotency-Expires-At": components["headers"]["ExpiresAt"];
                    "Idempotency-Key": components["headers"]["Key"];
                    Link: components["headers"]["Link"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Should-Retry": components["headers"]["ShouldRetry"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    Traceparent: components["headers"]["Traceparent"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StripeError"];
                    /**
                     * @example {
                     *       "type": "/errors/idempotency_key_fingerprint_mismatch",
                     *       "title": "The key belongs to a different request",
                     *       "status": 422,
                     *       "detail": "This key was first used with a different request. Send that request again, or this one with a new key.",
                     *       "error": "idempotency_key_fingerprint_mismatch",
                     *       "retry": "never"
                     *     }
                     */
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    getTransfer: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag of an earlier answer. 304, without a body, if the object has not changed. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
                /** @description A request that carries it is answered as Stripe does, and may be a form in Stripe's bracket notation: see docs/API.md, "Coming from Stripe". */
                "Stripe-Version"?: components["parameters"]["StripeVersion"];
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The object as it is now, read with authority. A retry of its request repeats the first answer instead. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "tr_jlr1b8fava28l541000rsm92gs",
                     *       "object": "transfer",
                     *       "amount": 1500,
                     *       "currency": "usd",
                     *       "status": "succeeded",
                     *       "created": 1795370831,
                     *       "livemode": true,
                     *       "destination": "acct_1",
                     *       "receipt_number": "R-JLR1-B8FA-VA28",
                     *       "provider": {
                     *         "name": "simulator",
                     *         "reference": "psp_tr_000000000003"
                     *       },
                     *       "amount_reversed": 0,
                     *       "as_of": 1795380000
                     *     }
                     */
                    "application/json": components["schemas"]["TransferNow"] | components["schemas"]["StripeTransfer"];
                };
            };
            /** @description If-None-Match names the object as it is. */
            304: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    "Homeward-Home-Region": components["headers"]["HomeRegion"];
                    "Request-Id": components["headers"]["RequestID"];
                    "Stripe-Version": components["headers"]["StripeVersion"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            500: components["responses"]["Internal"];
            503: components["responses"]["Unavailable"];
        };
    };
    receiveNotice: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                provider: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "*/*": unknown;
            };
        };
        responses: {
            /** @description The notice is stored. The answer has no body. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["NoticeRefused"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["TooLarge"];
            500: components["responses"]["Internal"];
            503: components["responses"]["NoticeBusy"];
        };
    };
    chargeEvent: {
        parameters: {
            query?: never;
            header: {
                /**
                 * @description The event's id.
                 * @example evt_ch_709ho4tsaa2m1e5p000p0h0d84_1
                 */
                "webhook-id": components["parameters"]["WebhookId"];
                /**
                 * @description One or more signatures with a space between them, each v1, and the base64 of HMAC-SHA256 over id.timestamp.body. One valid signature is enough.
                 * @example v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=
                 */
                "webhook-signature": components["parameters"]["WebhookSignature"];
                /**
                 * @description Unix time of this delivery, in seconds. Refuse a delivery that is older than five minutes.
                 * @example 1795370831
                 */
                "webhook-timestamp": components["parameters"]["WebhookTimestamp"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "id": "evt_ch_709ho4tsaa2m1e5p000p0h0d84_1",
                 *       "type": "charge.succeeded",
                 *       "created": 1795370831,
                 *       "livemode": true,
                 *       "data": {
                 *         "id": "ch_709ho4tsaa2m1e5p000p0h0d84",
                 *         "object": "charge",
                 *         "amount": 1999,
                 *         "currency": "usd",
                 *         "status": "succeeded",
                 *         "created": 1795370830,
                 *         "livemode": true,
                 *         "payment_method": "pm_card_visa",
                 *         "order_id": "6735",
                 *         "metadata": {
                 *           "cart": "c-12"
                 *         },
                 *         "receipt_number": "R-709H-O4TS-AA2M",
                 *         "provider": {
                 *           "name": "simulator",
                 *           "reference": "psp_ch_000000000001"
                 *         }
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["Event"];
            };
        };
        responses: {
            /** @description Accepted. After any other status the event is sent again, at growing intervals, and not before Retry-After. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The endpoint is disabled at once. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    disputeEvent: {
        parameters: {
            query?: never;
            header: {
                /**
                 * @description The event's id.
                 * @example evt_ch_709ho4tsaa2m1e5p000p0h0d84_1
                 */
                "webhook-id": components["parameters"]["WebhookId"];
                /**
                 * @description One or more signatures with a space between them, each v1, and the base64 of HMAC-SHA256 over id.timestamp.body. One valid signature is enough.
                 * @example v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=
                 */
                "webhook-signature": components["parameters"]["WebhookSignature"];
                /**
                 * @description Unix time of this delivery, in seconds. Refuse a delivery that is older than five minutes.
                 * @example 1795370831
                 */
                "webhook-timestamp": components["parameters"]["WebhookTimestamp"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "id": "evt_ch_709ho4tsaa2m1e5p000p0h0d84_dispute_opened_5f1d0c2ab7e94d3f8a6b1c2d3e4f5a6b",
                 *       "type": "charge.dispute.created",
                 *       "created": 1795370831,
                 *       "livemode": true,
                 *       "data": {
                 *         "id": "dp_7c2e19d0a3b84f5e9d6a1b2c3d4e5f60",
                 *         "object": "dispute",
                 *         "amount": 1999,
                 *         "currency": "usd",
                 *         "livemode": true,
                 *         "charge": "ch_709ho4tsaa2m1e5p000p0h0d84",
                 *         "reason": "fraudulent",
                 *         "status": "needs_response",
                 *         "evidence_details": {
                 *           "due_by": 1795975631
                 *         },
                 *         "provider": {
                 *           "name": "simulator",
                 *           "reference": "dp_000000000001"
                 *         },
                 *         "order_id": "6735"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["Event"];
            };
        };
        responses: {
            /** @description Accepted. After any other status the event is sent again, at growing intervals, and not before Retry-After. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The endpoint is disabled at once. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    refundEvent: {
        parameters: {
            query?: never;
            header: {
                /**
                 * @description The event's id.
                 * @example evt_ch_709ho4tsaa2m1e5p000p0h0d84_1
                 */
                "webhook-id": components["parameters"]["WebhookId"];
                /**
                 * @description One or more signatures with a space between them, each v1, and the base64 of HMAC-SHA256 over id.timestamp.body. One valid signature is enough.
                 * @example v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=
                 */
                "webhook-signature": components["parameters"]["WebhookSignature"];
                /**
                 * @description Unix time of this delivery, in seconds. Refuse a delivery that is older than five minutes.
                 * @example 1795370831
                 */
                "webhook-timestamp": components["parameters"]["WebhookTimestamp"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "id": "evt_re_2vio95pd2q6v9fab000tmuddec_1",
                 *       "type": "refund.succeeded",
                 *       "created": 1795370831,
                 *       "livemode": true,
                 *       "data": {
                 *         "id": "re_2vio95pd2q6v9fab000tmuddec",
                 *         "object": "refund",
                 *         "amount": 500,
                 *         "currency": "usd",
                 *         "status": "succeeded",
                 *         "created": 1795370831,
                 *         "livemode": true,
                 *         "charge": "ch_709ho4tsaa2m1e5p000p0h0d84",
                 *         "reason": "damaged",
                 *         "receipt_number": "R-2VIO-95PD-2Q6V",
                 *         "provider": {
                 *           "name": "simulator",
                 *           "reference": "psp_re_000000000002"
                 *         }
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["Event"];
            };
        };
        responses: {
            /** @description Accepted. After any other status the event is sent again, at growing intervals, and not before Retry-After. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The endpoint is disabled at once. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    transferEvent: {
        parameters: {
            query?: never;
            header: {
                /**
                 * @description The event's id.
                 * @example evt_ch_709ho4tsaa2m1e5p000p0h0d84_1
                 */
                "webhook-id": components["parameters"]["WebhookId"];
                /**
                 * @description One or more signatures with a space between them, each v1, and the base64 of HMAC-SHA256 over id.timestamp.body. One valid signature is enough.
                 * @example v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=
                 */
                "webhook-signature": components["parameters"]["WebhookSignature"];
                /**
                 * @description Unix time of this delivery, in seconds. Refuse a delivery that is older than five minutes.
                 * @example 1795370831
                 */
                "webhook-timestamp": components["parameters"]["WebhookTimestamp"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "id": "evt_tr_jlr1b8fava28l541000rsm92gs_1",
                 *       "type": "transfer.succeeded",
                 *       "created": 1795370831,
                 *       "livemode": true,
                 *       "data": {
                 *         "id": "tr_jlr1b8fava28l541000rsm92gs",
                 *         "object": "transfer",
                 *         "amount": 1500,
                 *         "currency": "usd",
                 *         "status": "succeeded",
                 *         "created": 1795370831,
                 *         "livemode": true,
                 *         "destination": "acct_1",
                 *         "receipt_number": "R-JLR1-B8FA-VA28",
                 *         "provider": {
                 *           "name": "simulator",
                 *           "reference": "psp_tr_000000000003"
                 *         }
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["Event"];
            };
        };
        responses: {
            /** @description Accepted. After any other status the event is sent again, at growing intervals, and not before Retry-After. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The endpoint is disabled at once. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
}
